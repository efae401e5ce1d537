"""Statistics of pictures in every BN: PyTorch in training, with all of them in one batch, is the judge."""

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

    judge = TorchLite0()
    judge.load_state_dict(torch.load(in_package(LITE0), weights_only=True))
    for unit in units():
        judge.get_submodule(unit.bn).momentum = 1.0  # what is running is the batch's
    with torch.no_grad():
        values = judge.train().values(torch.from_numpy(pictures)[:, [2, 1, 0]].div(128))
    found, features = recomputed
    expected = values[POOLED].numpy()[:, :, 0, 0]
    assert features.shape == (len(pictures), HEAD)
    np.testing.assert_allclose(features, expected, atol=1e-3 * np.abs(expected).max())
    for unit in units():
        bn, count = judge.get_submodule(unit.bn), values[unit.name][:, 0].numel()
        variance = bn.running_var.numpy() * (count - 1) / count  # PyTorch's is unbiased
        for statistic, wanted in (("running_mean", bn.running_mean.numpy()), ("running_var", variance)):
            close = found.values[f"{unit.bn}.{statistic}"]
            np.testing.assert_allclose(close, wanted, atol=1e-3 * np.abs(wanted).max(), err_msg=unit.name)


def test_a_net_that_has_them_gives_the_same_features(recomputed: tuple[Lite0, Array], net: Lite0, pictures: Array):
    found, features = recomputed
    np.testing.assert_allclose(torch_lite0(found).run(pictures + 127)[POOLED][:, :, 0, 0], features, atol=1e-3)
    assert np.abs(torch_lite0(net).run(pictures + 127)[POOLED][:, :, 0, 0] - features).max() > 0.1
    same = {name for name, values in net.values.items() if np.array_equal(values, found.values[name])}
    assert same == {name for name in net.values if "running" not in name}
