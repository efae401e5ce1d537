"""What both sides are run on."""

from pathlib import Path

import numpy as np
import pytest

from latent_domains.common.program import ProgramError
from latent_domains.convert.onnx.verify import batches
from latent_domains.models import inputs
from latent_domains.models.model import Model, forward, load
from tests.latent_domains.convert.onnx.nets import random_model, with_input
from tests.latent_domains.nets.graphs import parse

SOFTMAX = 'layer { name: "prob" type: "Softmax" bottom: "fc" top: "prob" }'


@pytest.mark.parametrize(
    ("after", "weight", "pixels", "logits"),
    [
        (SOFTMAX, 1, (0.5, 10), (5, 24)),
        (SOFTMAX, 1e-3, (100, 128), (0.1, 24)),  # nothing to do
        (SOFTMAX, 1e6, (0.4, 0.5), (1e5, 1e7)),  # as small as pixels may be
        ("", 1, (100, 128), (100, 5000)),
    ],
)
def test_inputs_leave_a_softmax_at_work(
    after: str, weight: float, pixels: tuple[float, float], logits: tuple[float, float]
) -> None:
    fc = 'layer { name: "fc" type: "InnerProduct" bottom: "data" top: "fc" inner_product_param { num_output: 3 } }'
    rng = np.random.default_rng(0)
    parameters = [(weight * rng.normal(size=(3, 50))).astype(np.float32), np.zeros(3, np.float32)]
    net = load(Model(parse(with_input(fc + after, 50)), {"fc": parameters}))
    for batch in batches(net, None, 0):
        assert pixels[0] < np.abs(batch["data"]).max() <= pixels[1]
        assert logits[0] < np.abs(forward(net, batch)["fc"]).max() < logits[1]


def test_inputs_are_the_nets_own_where_they_are_known() -> None:
    text = 'layer { name: "tanh" type: "TanH" bottom: "data" top: "tanh" }'
    net = load(Model(parse(with_input(text, 3, 8, 8)), {}))
    expected = inputs.noise((3, 8, 8), 5, (104, 117, 123), 0.1)
    for batch in batches(net, None, 5, (104, 117, 123), 0.1):
        np.testing.assert_array_equal(batch["data"], expected[: len(batch["data"])])


def test_images_need_a_single_input(tmp_path: Path) -> None:
    text = """layer { name: "in" type: "Input" top: "x" top: "y" input_param { shape { dim: 1 dim: 3 dim: 4 dim: 4 } } }
              layer { name: "s" type: "Eltwise" bottom: "x" bottom: "y" top: "s" }"""
    with pytest.raises(ProgramError, match="--images: the net has the inputs x, y, expected a single one"):
        list(batches(load(random_model(parse(text))), tmp_path, 0))
