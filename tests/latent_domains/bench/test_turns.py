"""Sides in processes of their own."""

from functools import partial

import pytest

from latent_domains.bench.extent import Extent
from latent_domains.bench.sides import forward_caffe, forward_opencv
from latent_domains.bench.turns import take_turns
from latent_domains.bench.whole import random_model
from latent_domains.common.program import ProgramError
from latent_domains.models.model import write_model
from tests.latent_domains.convert.fold.models import DATA, layer
from tests.latent_domains.nets.graphs import parse

pytestmark = pytest.mark.program


def test_each_side_is_measured(tmp_path):
    net = parse(DATA + layer("scale", "Scale", "data", "y", "scale_param { bias_term: true }"))
    write_model(random_model(net), tmp_path / "net", about="", force=False)
    prefix = str(tmp_path / "net")
    sides = {
        name: partial(side, prefix=prefix, batch=2)
        for name, side in (("Caffe", forward_caffe), ("OpenCV", forward_opencv))
    }
    best = take_turns(sides, 1, Extent(0))
    assert set(best) == set(sides)
    for taken in best.values():
        assert 0 < taken.seconds < 0.3
        assert taken.cpu > 0


def test_a_side_that_fails_says_why(tmp_path):
    with pytest.raises(ProgramError, match=r"Caffe ended with 1: error: .*none.*no such file"):
        take_turns({"Caffe": partial(forward_caffe, prefix=str(tmp_path / "none"), batch=2)}, 1, Extent(0))
