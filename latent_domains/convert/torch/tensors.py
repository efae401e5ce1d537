"""Tensors as checkpoints store them: part of a storage, given by an offset, sizes and strides."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from latent_domains.common.wording import by
from latent_domains.convert.torch.words import shown

RAW = {
    "float64": np.dtype("<f8"),
    "float32": np.dtype("<f4"),
    "float16": np.dtype("<f2"),
    "bfloat16": np.dtype("<u2"),  # NumPy has none: the upper half of a float32's bits
    "int64": np.dtype("<i8"),
    "int32": np.dtype("<i4"),
    "int16": np.dtype("<i2"),
    "int8": np.dtype("i1"),
    "uint8": np.dtype("u1"),
    "bool": np.dtype("?"),
}
"""How numbers of each kind lie in a file."""

_FLOATS = ("float64", "float32", "float16", "bfloat16")

MOST_AXES = 8
"""Of a tensor: far beyond those of weights."""

LARGEST = 2**63 - 1
"""What sizes, strides and offsets are up to: PyTorch, Lua Torch and NumPy keep them in 64 bits."""


class CheckpointError(Exception):
    """An error in a file. The caller, who knows the file's name, puts it before the message."""


class Inert:
    """An object that pickles may use, but whose state they cannot set."""

    __slots__ = ()

    def __setstate__(self, state: object) -> None:
        raise CheckpointError(f"its pickle sets attributes of a {type(self).__name__}, which no state dict needs")


@dataclass(frozen=True)
class Tensor(Inert):
    """Numbers of a ``kind`` (one of RAW) in a ``shape``; they are read when they are asked for."""

    kind: str
    shape: tuple[int, ...]
    read: Callable[[], NDArray]
    """The numbers as RAW has them. Raises CheckpointError if the file is damaged."""

    def values(self) -> NDArray[np.float32]:
        """The numbers as float32, in an array of their own. Raises CheckpointError if they are no floats."""
        if self.kind not in _FLOATS:
            raise CheckpointError(f"numbers of {self.kind}, expected {', '.join(_FLOATS)}")
        raw = self.read()
        if self.kind == "bfloat16":
            return (raw.astype(np.uint32) << 16).view(np.float32)
        with np.errstate(over="ignore"):  # beyond float32 is infinite, which is looked for where it matters
            return np.array(raw, np.float32, order="C")


def of_values(values: NDArray[np.floating]) -> Tensor:
    """A tensor of numbers that are there already, as float32."""
    array = np.asarray(values, np.float32)
    return Tensor("float32", array.shape, lambda: array)


def check_part(offset: object, shape: Sequence[object], strides: Sequence[object]) -> None:
    """Raise CheckpointError unless these can be a tensor's: a whole number from 0 to LARGEST for each of few axes."""
    if len(shape) > MOST_AXES:
        raise CheckpointError(f"a tensor of {len(shape)} axes, expected at most {MOST_AXES}")
    numbers = (offset, *shape, *strides)
    if len(shape) != len(strides) or any(type(n) is not int or not 0 <= n <= LARGEST for n in numbers):
        raise CheckpointError(
            f"a tensor of sizes {shown(tuple(shape))}, strides {shown(tuple(strides))} and offset {shown(offset)}: "
            "expected a number ≥ 0 and < 2^63 for each axis"
        )


def strided(storage: NDArray, offset: int, shape: Sequence[int], strides: Sequence[int]) -> NDArray:
    """The part of ``storage`` (1-D) that begins at ``offset``, with ``strides`` counted in numbers.

    Raises CheckpointError unless all of it lies within the storage, and no larger than it.
    """
    check_part(offset, shape, strides)
    count = prod(shape)
    if count == 0:
        return storage[:0]
    last = offset + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    if last >= len(storage) or count > len(storage):  # the latter by strides of 0: small files of huge tensors
        raise CheckpointError(
            f"a tensor of {by(shape)}, with strides {by(strides)} from number {offset} on, does not lie within its "
            f"storage of {len(storage)} numbers"
        )
    # The stride of an axis of one number has no effect, and may be anything.
    inside = [stride * storage.itemsize if size > 1 else 0 for size, stride in zip(shape, strides, strict=True)]
    return np.lib.stride_tricks.as_strided(storage[offset:], shape, inside, writeable=False)
