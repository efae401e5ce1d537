"""Statistics of pictures in every BN: PyTorch in training, with all of them in one batch, in float64, is the judge."""

import math

import numpy as np
import pytest

from latent_domains.ablations.lite0_statistics import with_statistics_of
from latent_domains.convert.torch.lite0 import Lite0, units
from latent_domains.convert.torch.lite0_reference import torch_lite0
from latent_domains.convert.torch.read import read_lite0
from latent_domains.data.weights_files import in_package
from latent_domains.experiment.networks import LITE0
from latent_domains.models.model import Array
from latent_domains.nets.lite0 import HEAD, POOLED
from tests.tolerance import rounding

TERMS = np.cumsum([math.prod(unit.shape[1:]) for unit in units()])
"""How many terms the sums have of which a unit's values come, its own and those of the units before it."""


@pytest.fixture(scope="module")
def net() -> Lite0:
    return read_lite0(in_package(LITE0), head=False)


@pytest.fixture(scope="module")
def pictures() -> Array:
    """Squares of different brightness and contrast, B, G, R less 127."""
    rng = np.random.default_rng(0)
    noise = rng.uniform(-127, 128, (6, 3, 64, 64)) * rng.uniform(0.1, 0.8, (6, 3, 1, 1))
    return (noise + rng.uniform(-25, 25, (6, 3, 1, 1))).astype(np.float32)


@pytest.fixture(scope="module")
def recomputed(net: Lite0, pictures: Array) -> tuple[Lite0, Array]:
    return with_statistics_of(pictures, net)


@pytest.mark.torch
def test_they_are_those_of_one_batch_in_training(recomputed: tuple[Lite0, Array], pictures: Array) -> None:
    import torch

    from tests.latent_domains.convert.torch.lite0_net import Lite0 as TorchLite0

    judge = TorchLite0().double()
    judge.load_state_dict(torch.load(in_package(LITE0), weights_only=True))
    for unit in units():
        judge.get_submodule(unit.bn).momentum = 1.0  # what is running is the batch's
    with torch.no_grad():
        values = judge.train().values(torch.from_numpy(pictures)[:, [2, 1, 0]].double().div(128))
    found, features = recomputed
    expected = values[POOLED].numpy()[:, :, 0, 0]
    assert features.shape == (len(pictures), HEAD)
    np.testing.assert_allclose(features, expected, rtol=0, atol=rounding(TERMS[-1], expected))
    for unit, terms in zip(units(), TERMS, strict=True):
        bn, (places, count) = (
            judge.get_submodule(unit.bn),
            (values[unit.name][0, 0].numel(), values[unit.name][:, 0].numel()),
        )
        mean, variance = bn.running_mean.numpy(), bn.running_var.numpy() * (count - 1) / count  # PyTorch's is unbiased
        square = mean**2 + variance
        for statistic, wanted, scale in (("running_mean", mean, np.sqrt(square)), ("running_var", variance, square)):
            np.testing.assert_allclose(
                found.values[f"{unit.bn}.{statistic}"],
                wanted,
                rtol=0,
                atol=rounding(terms + places, scale),
                err_msg=unit.name,
            )


def test_a_net_that_has_them_gives_the_same_features(recomputed: tuple[Lite0, Array], net: Lite0, pictures: Array):
    found, features = recomputed
    again = torch_lite0(found).run(pictures + 127)[POOLED][:, :, 0, 0]
    np.testing.assert_allclose(again, features, rtol=0, atol=2 * rounding(TERMS[-1], features))  # both are rounded
    assert np.abs(torch_lite0(net).run(pictures + 127)[POOLED][:, :, 0, 0] - features).max() > 0.1
    same = {name for name, values in net.values.items() if np.array_equal(values, found.values[name])}
    assert same == {name for name in net.values if "running" not in name}
