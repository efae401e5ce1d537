"""Sides in processes of their own."""

import os
import time
from functools import partial

import pytest

from latent_domains.bench.beside_torch import take_turns
from latent_domains.bench.rows import Extent

pytestmark = pytest.mark.program


def sleeping(seconds, threads):
    assert os.environ["OMP_NUM_THREADS"] == str(threads)
    return partial(time.sleep, seconds)


def failing(threads):
    raise ValueError("nothing to load")


def test_each_side_is_measured():
    best = take_turns({"Caffe": partial(sleeping, 0.01), "PyTorch": partial(sleeping, 0.1)}, 3, Extent(0))
    assert 0.01 < best["Caffe"].seconds < 0.1 < best["PyTorch"].seconds
    assert best["Caffe"].cpu < best["Caffe"].seconds


def test_a_side_that_fails_says_why():
    with pytest.raises(ValueError, match="nothing to load"):
        take_turns({"Caffe": failing}, 1, Extent(0))
