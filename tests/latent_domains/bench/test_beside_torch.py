"""Sides in processes of their own."""

import os
import time
from functools import partial

import pytest

from latent_domains.bench import training
from latent_domains.bench.beside_torch import take_turns, twin_and_inputs
from latent_domains.bench.rows import Extent

pytestmark = pytest.mark.program


def sleeping(seconds, threads):
    assert os.environ["OMP_NUM_THREADS"] == str(threads)
    return partial(time.sleep, seconds)


def failing(threads):
    raise ValueError("nothing to load")


@pytest.mark.torch
@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize("name", ["digits", "resnet18", "lite0"])
def test_all_that_a_twin_reads_is_on_its_device(name, plain):
    """PyTorch's device without memory refuses operations that another device's tensors take part in."""
    twin, inputs = twin_and_inputs(training.settings(name, smallest=True), plain, "meta")
    assert twin.loss(twin(inputs)).device.type == "meta"


def reading(threads):
    assert os.environ["CAFFE_TF32"] == "1"
    return partial(time.sleep, 0.01)


def test_sides_have_the_variables_of_their_environment():
    best = take_turns({"Caffe": reading, "PyTorch": reading}, 1, Extent(0, smallest=True), {"CAFFE_TF32": "1"})
    assert set(best) == {"Caffe", "PyTorch"} and "CAFFE_TF32" not in os.environ


def test_each_side_is_measured():
    best = take_turns({"Caffe": partial(sleeping, 0.01), "PyTorch": partial(sleeping, 0.1)}, 3, Extent(0))
    assert 0.01 < best["Caffe"].seconds < 0.1 < best["PyTorch"].seconds
    assert best["Caffe"].cpu < best["Caffe"].seconds


def test_a_side_that_fails_says_why():
    with pytest.raises(ValueError, match="nothing to load"):
        take_turns({"Caffe": failing}, 1, Extent(0))
