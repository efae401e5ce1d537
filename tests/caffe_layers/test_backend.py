"""What the CPU's and the GPU's half of a layer share; which of them runs on a GPU is in test_device.py."""

import threading

import caffe
import numpy as np
import pytest

from caffe_layers._backend import current
from caffe_layers._scratch import scratch


def test_backend_one_name_is_one_memory_whatever_the_shape():
    large = scratch("test shapes", (4, 6))
    large[...] = np.arange(24).reshape(4, 6)
    small = scratch("test shapes", (3, 2))
    assert small.base is large.base
    assert small.flags.c_contiguous
    assert np.array_equal(small, [[0, 1], [2, 3], [4, 5]])
    # Smaller requests in between do not shrink it: two layers in turn allocate nothing.
    assert scratch("test shapes", (24,)).base is large.base


@pytest.mark.program
def test_backend_threads_are_apart():
    mine, theirs = scratch("test threads", (3,)), []
    thread = threading.Thread(target=lambda: theirs.append(scratch("test threads", (3,))))
    thread.start()
    thread.join()
    assert not np.may_share_memory(mine, theirs[0])


def test_backend_a_caffe_that_tells_no_mode_runs_on_the_cpu(monkeypatch):
    monkeypatch.delattr(caffe, "get_mode")
    assert current() is None
