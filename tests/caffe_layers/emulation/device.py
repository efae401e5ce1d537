"""Caffe's GPU mode without a GPU: the layers take their way to CuPy, whose stand-in runs kernels in the emulator."""

import sys
from functools import cache

import caffe
import pytest
from caffe import _caffe

from caffe_layers import _device
from tests.caffe_layers.emulation import cupy


class GpuMode:
    """While ``on``, Caffe says that it is in GPU mode. The host memory of a blob is its device memory.

    ``log`` has the launches of kernels; ``order`` is that in which threads and blocks run (``emulator.Module.launch``).
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, order: str = "shuffled", *, on: bool = True) -> None:
        self.on = on
        self.log = cupy.Log(order)
        monkeypatch.setattr(cupy, "log", self.log)
        monkeypatch.setattr(caffe, "get_mode", lambda: "GPU" if self.on else "CPU")
        monkeypatch.setitem(sys.modules, "cupy", cupy)
        for name in ("_cupy", "_gpu"):  # with nothing kept of earlier tests
            monkeypatch.setattr(_device, name, cache(getattr(_device, name).__wrapped__))
        for kind in ("data", "diff"):
            address = property(lambda blob, kind=kind: getattr(blob, kind).ctypes.data)
            # In a Caffe without CUDA blobs have no such attribute.
            monkeypatch.setattr(_caffe.Blob, f"_gpu_{kind}_ptr", address, raising=False)
