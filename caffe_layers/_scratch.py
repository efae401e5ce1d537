"""Working arrays that all layers of a thread share, since only one of them computes at a time."""

import math
import threading

import numpy as np
from numpy.typing import DTypeLike, NDArray

_local = threading.local()


def scratch(name: str, shape: tuple[int, ...], dtype: DTypeLike = np.float64) -> NDArray:
    """An uninitialised C-contiguous array of ``shape``; the next call with the same name and type reuses its memory.

    The memory only ever grows: a layer that calls this in ``reshape`` allocates nothing in forward and backward.
    """
    pools = _local.__dict__.setdefault("pools", {})
    key = name, np.dtype(dtype).char
    size = math.prod(shape)
    if key not in pools or pools[key].size < size:
        pools[key] = np.empty(size, dtype)
    return pools[key][:size].reshape(shape)
