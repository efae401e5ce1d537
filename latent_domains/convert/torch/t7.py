"""Lua Torch's binary files, read by the library ``torchfile`` with our own reading of tensors and storages.

The library's own trust every size in the file. Objects of Lua classes become plain records of their fields, functions
stay unread bytes: nothing of them can run.
"""

from typing import Any

import numpy as np
import torchfile
from numpy.typing import NDArray

from latent_domains.convert.torch.tensors import KINDS, MOST_AXES, CheckpointError, escaped, strided


class _Source:
    """The bytes of a file. Each read begins where the last one ended, and never passes the end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def read(self, size: int) -> bytes:
        left = len(self._data) - self._at
        if not 0 <= size <= left:
            raise CheckpointError(f"damaged or truncated: {size} bytes are to come after byte {self._at}, found {left}")
        self._at += size
        return self._data[self._at - size : self._at]


def read(data: bytes) -> Any:
    """The object in a file: tables as dicts, strings as bytes, tensors as arrays, others as TorchObject.

    Raises CheckpointError if the file is damaged.
    """
    try:
        # Its lists are found by comparing all values, which arrays do not stand.
        return torchfile.T7Reader(_Source(data), force_8bytes_long=True, use_list_heuristic=False).read_obj()
    except CheckpointError:
        raise
    except Exception as error:  # the library checks nothing itself: a damaged file can raise anything
        found = escaped(str(error) or type(error).__name__)
        raise CheckpointError(f"damaged, or no binary file of Lua Torch's: {found}") from error


def _register(name: str, dtype: np.dtype) -> None:
    """Read storages and tensors of the Lua classes torch.NAMEStorage and torch.NAMETensor."""

    def storage(reader: torchfile.T7Reader, _: object) -> NDArray:
        return np.frombuffer(reader.f.read(reader.read_long() * dtype.itemsize), dtype)

    def tensor(reader: torchfile.T7Reader, _: object) -> NDArray:
        axes = reader.read_int()
        if not 0 <= axes <= MOST_AXES:
            raise CheckpointError(f"a tensor of {axes} axes, expected at most {MOST_AXES}")
        shape, strides = (tuple(reader.read_long() for _ in range(axes)) for _ in range(2))
        offset = reader.read_long() - 1  # Lua counts from 1
        numbers = reader.read_obj()
        if numbers is None or axes == 0:
            return np.empty(0, dtype)
        if not isinstance(numbers, np.ndarray) or numbers.dtype != dtype:
            raise CheckpointError(f"a torch.{name}Tensor without a storage of its own kind")
        return strided(numbers, offset, shape, strides)

    torchfile.register_handler(f"torch.{name}Storage".encode())(storage)
    torchfile.register_handler(f"torch.{name}Tensor".encode())(tensor)


for _dtype, (_name, _) in KINDS.items():
    _register(_name, _dtype)
    _register("Cuda" if _name == "Float" else f"Cuda{_name}", _dtype)
