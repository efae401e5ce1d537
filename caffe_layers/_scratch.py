"""Working arrays, in which the layers compute."""

import math
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray


class Pool:
    """Working arrays that all layers of a thread share, since only one of them computes at a time.

    ``allocate(size, dtype)`` makes them, one for each name and type. Their memory grows and never shrinks.
    """

    def __init__(self, allocate: Callable[[int, DTypeLike], Any]) -> None:
        self._allocate = allocate
        self._local = threading.local()

    def array(self, name: str, shape: tuple[int, ...], dtype: DTypeLike = np.float64) -> Any:
        """Return an uninitialised C-contiguous array; the next call with the same name and type reuses its memory."""
        views = self._local.__dict__.setdefault("views", {})
        request = name, shape, dtype
        if request not in views:  # making a view of a GPU's array takes time on the host
            views[request] = self._view(*request)
        return views[request]

    def _view(self, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> Any:
        arrays = self._local.__dict__.setdefault("arrays", {})
        key = name, np.dtype(dtype).char
        size = math.prod(shape)
        if key not in arrays or arrays[key].size < size:
            arrays[key] = self._allocate(size, dtype)
            views = self._local.views
            for request in [each for each in views if (each[0], np.dtype(each[2]).char) == key]:
                del views[request]
        return arrays[key][:size].reshape(shape)


_pool = Pool(np.empty)


def scratch(name: str, shape: tuple[int, ...], dtype: DTypeLike = np.float64) -> NDArray:
    """Return one of the calling thread's NumPy arrays (see ``Pool.array``).

    A layer that calls this in ``reshape`` allocates nothing in forward and backward.
    """
    return _pool.array(name, shape, dtype)
