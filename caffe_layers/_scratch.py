"""Working arrays that all layers of a thread share, since only one of them computes at a time."""

import math
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

_local = threading.local()


class Pool:
    """Arrays by name and type, from ``allocate(size, dtype)``; their memory only ever grows."""

    def __init__(self, allocate: Callable[[int, DTypeLike], Any]) -> None:
        self._allocate = allocate
        self._arrays: dict[tuple[str, str], Any] = {}

    def array(self, name: str, shape: tuple[int, ...], dtype: DTypeLike = np.float64) -> Any:
        """An uninitialised C-contiguous array; the next call with the same name and type reuses its memory."""
        key = name, np.dtype(dtype).char
        size = math.prod(shape)
        if key not in self._arrays or self._arrays[key].size < size:
            self._arrays[key] = self._allocate(size, dtype)
        return self._arrays[key][:size].reshape(shape)


def scratch(name: str, shape: tuple[int, ...], dtype: DTypeLike = np.float64) -> NDArray:
    """An array of the calling thread's pool of NumPy arrays.

    A layer that calls this in ``reshape`` allocates nothing in forward and backward.
    """
    pool = _local.__dict__.setdefault("pool", Pool(np.empty))
    return pool.array(name, shape, dtype)
