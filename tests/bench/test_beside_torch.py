"""Sides in processes of their own."""

import os
import time
from functools import partial

import pytest

from bench import training
from bench.beside_torch import take_turns, twin_and_inputs
from bench.rows import Extent

pytestmark = pytest.mark.program


def sleeping(seconds):
    assert (os.environ["OMP_NUM_THREADS"], os.environ["CAFFE_TF32"]) == ("3", "1")
    return partial(time.sleep, seconds)


def failing():
    raise ValueError("nothing to load")


@pytest.mark.torch
@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize("name", ["digits", "resnet18", "lite0"])
def test_twin_and_inputs_all_that_a_twin_reads_is_on_its_device(name, plain):
    """PyTorch's device without memory refuses operations that another device's tensors take part in."""
    twin, inputs = twin_and_inputs(training.settings(name, smallest=True), plain, "meta")
    assert twin.loss(twin(inputs)).device.type == "meta"


def test_take_turns_each_side_is_measured():
    """In a process with the threads and variables that it is given."""
    sides = {"Caffe": partial(sleeping, 0.01), "PyTorch": partial(sleeping, 0.1)}
    best = take_turns(sides, 3, Extent(0, smallest=True), {"CAFFE_TF32": "1"})
    assert set(best) == {"Caffe", "PyTorch"} and "CAFFE_TF32" not in os.environ
    assert 0.01 < best["Caffe"].seconds < 0.1 < best["PyTorch"].seconds
    assert best["Caffe"].cpu < best["Caffe"].seconds


def test_take_turns_a_side_that_fails_says_why():
    with pytest.raises(ValueError, match="nothing to load"):
        take_turns({"Caffe": failing}, 1, Extent(0), {})
