"""Lua Torch's binary files, read by the library ``torchfile`` with tensors and storages of our own.

The library's own trust every size in the file. Objects of Lua classes become plain records of their fields, functions
stay unread bytes: nothing of them can run.
"""

from typing import Any

import numpy as np
import torchfile
from numpy.typing import NDArray

from latent_domains.convert.torch.tensors import MOST_AXES, RAW, CheckpointError, Tensor, strided
from latent_domains.convert.torch.words import plain

_KINDS = {
    "Double": "float64",
    "Float": "float32",
    "Half": "float16",
    "Long": "int64",
    "Int": "int32",
    "Short": "int16",
    "Char": "int8",
    "Byte": "uint8",
    "CudaDouble": "float64",
    "Cuda": "float32",
    "CudaHalf": "float16",
    "CudaLong": "int64",
    "CudaInt": "int32",
    "CudaShort": "int16",
    "CudaChar": "int8",
    "CudaByte": "uint8",
}
"""Kind of the numbers in torch.FloatTensor, torch.FloatStorage and so on. Cuda alone is CUDA's float."""


class _Source:
    """The file's bytes, read on from where the last read ended and never past their end."""

    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)
        self._at = 0

    def read(self, size: int) -> bytes:
        return bytes(self.view(size))

    def view(self, size: int) -> memoryview:
        left = len(self._data) - self._at
        if not 0 <= size <= left:
            raise CheckpointError(f"damaged or truncated: {size} bytes are to come after byte {self._at}, found {left}")
        self._at += size
        return self._data[self._at - size : self._at]


def read(data: bytes) -> Any:
    """The object in a file: tables as dicts or lists, strings as bytes, tensors as Tensor, others as TorchObject.

    Raises CheckpointError if the file is damaged.
    """
    try:
        return torchfile.T7Reader(_Source(data), force_8bytes_long=True).read_obj()
    except CheckpointError:
        raise
    except Exception as error:  # the library checks nothing itself: a damaged file can raise anything
        found = plain(str(error) or type(error).__name__)
        raise CheckpointError(f"damaged, or no binary file of Lua Torch's: {found}") from error


def _register(name: str, kind: str) -> None:
    def storage(reader: torchfile.T7Reader, _: object) -> NDArray:
        return np.frombuffer(reader.f.view(reader.read_long() * RAW[kind].itemsize), RAW[kind])

    def tensor(reader: torchfile.T7Reader, _: object) -> Tensor:
        axes = reader.read_int()
        if not 0 <= axes <= MOST_AXES:
            raise CheckpointError(f"a tensor of {axes} axes, expected at most {MOST_AXES}")
        shape, strides = (tuple(reader.read_long() for _ in range(axes)) for _ in range(2))
        offset = reader.read_long() - 1  # Lua counts from 1
        numbers = reader.read_obj()
        if numbers is None or axes == 0:
            return Tensor(kind, (0,), lambda: np.empty(0, RAW[kind]))
        if not isinstance(numbers, np.ndarray) or numbers.dtype != RAW[kind]:
            raise CheckpointError(f"a torch.{name}Tensor without a storage of its own kind")
        return Tensor(kind, shape, lambda: strided(numbers, offset, shape, strides))

    torchfile.register_handler(f"torch.{name}Storage".encode())(storage)
    torchfile.register_handler(f"torch.{name}Tensor".encode())(tensor)


for _name, _kind in _KINDS.items():
    _register(_name, _kind)
