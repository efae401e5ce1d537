"""A ``caffe_layers._device.Device`` whose kernels run in the emulator, on the blobs of Caffe's CPU mode."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from caffe_layers import _cuda_source
from caffe_layers._backend import Pool
from tests.caffe_layers.emulation import emulator


class EmulatedKernels:
    """Emulated kernels of one source. The device notes each launch, and what it read and wrote."""

    def __init__(self, module: emulator.Module, device: "EmulatedDevice") -> None:
        self._module, self._device = module, device

    def launch(self, name: str, grid: int, block: int | tuple[int, int], *arguments: Any) -> None:
        assert self._device.entered, f"{name} was started outside of the device's context"
        self._device.started.append(name)
        block = (block,) if isinstance(block, int) else block
        device = self._device
        traffic = self._module.launch(name, (grid,), block, arguments, order=device.order, seed=len(device.started))
        device.traffic.append(traffic)


class EmulatedDevice:
    """New arrays are full of NaN, so that reading what no kernel wrote shows."""

    def __init__(self, order: str = "forward") -> None:
        self.order = order
        self.started: list[str] = []
        self.traffic: list[dict[str, tuple[int, int]]] = []
        self.entered = False
        self._views: dict[tuple[int, tuple[int, ...]], NDArray] = {}
        self._pool = Pool(lambda size, dtype: self.empty((size,), dtype))

    def data(self, blob: Any, shape: tuple[int, ...], first: int = 0) -> NDArray:
        return self._view(blob.data.reshape(-1)[first:][: math.prod(shape)].reshape(shape))

    def diff(self, blob: Any, shape: tuple[int, ...]) -> NDArray:
        return self._view(blob.diff.reshape(shape))

    def _view(self, array: NDArray) -> NDArray:
        """One object for one memory and shape, as on a GPU; the memory of a blob that is gone may be another's."""
        key = array.ctypes.data, array.shape
        return self._views.setdefault(key, array)

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray:
        return np.full(shape, np.nan, dtype)

    def ones(self, shape: tuple[int, ...]) -> NDArray:
        return np.ones(shape, np.float32)

    def scratch(self, name: str, shape: tuple[int, ...], dtype: DTypeLike = np.float64) -> NDArray:
        return self._pool.array(name, shape, dtype)

    def fault(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        word = np.zeros(1, np.uint64)
        return word, word

    def kernels(self, source: str, **macros: str | int) -> EmulatedKernels:
        return EmulatedKernels(_compiled(source, tuple(f"-D{name}={value}" for name, value in macros.items())), self)

    @contextmanager
    def active(self) -> Iterator[None]:
        self.entered = True
        try:
            yield
        finally:
            self.entered = False


@cache
def _compiled(source: str, options: tuple[str, ...]) -> emulator.Module:
    return emulator.compile(_cuda_source.source(source), ("-std=c++14", *options), name=f"{source}.cu")
