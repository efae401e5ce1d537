"""What both sides are run on."""

from pathlib import Path

import numpy as np
import pytest

from latent_domains.common.program import ProgramError
from latent_domains.convert.onnx.verify import batches
from latent_domains.models import inputs
from latent_domains.models.model import Model, load
from tests.latent_domains.convert.onnx.nets import random_model, with_input
from tests.latent_domains.nets.graphs import parse


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
