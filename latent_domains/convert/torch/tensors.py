"""Numbers as checkpoints store them: their types, and tensors as parts of a storage."""

from collections.abc import Sequence
from math import prod

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from latent_domains.common.wording import by
from latent_domains.networks.network import CheckpointError

KINDS = {
    np.dtype(kind): names
    for kind, *names in (
        ("float64", "Double", "F64"),
        ("float32", "Float", "F32"),
        ("float16", "Half", "F16"),
        (ml_dtypes.bfloat16, "BFloat16", "BF16"),
        ("int64", "Long", "I64"),
        ("int32", "Int", "I32"),
        ("int16", "Short", "I16"),
        ("int8", "Char", "I8"),
        ("uint8", "Byte", "U8"),
        ("bool", "Bool", "BOOL"),
    )
}
"""The types of numbers, with their names in both Torches (``FloatStorage``) and in safetensors."""

MOST_AXES = 8
"""The most axes of a tensor: far more than weights have."""

LARGEST = 2**63 - 1
"""The largest size, stride and offset: PyTorch, Lua Torch and NumPy store them in 64 bits."""

_LONGEST = 200
"""The most characters of one name from a file."""


def escaped(text: str | bytes) -> str:
    """Return a text from a file for a message: cut if it is long, control characters escaped.

    Protocol Buffers return a text that is not UTF-8 as bytes.
    """
    text = text if isinstance(text, str) else text.decode(errors="replace")
    cut = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text[:_LONGEST])
    return f"{cut}… ({len(text)} characters)" if len(text) > _LONGEST else cut or "''"


def strided(storage: NDArray, offset: int, shape: Sequence[int], strides: Sequence[int]) -> NDArray:
    """Return the part of ``storage`` (1-D) that begins at ``offset``, with ``strides`` counted in numbers.

    Raises CheckpointError unless all of it is within the storage, and is not larger.
    """
    if len(shape) > MOST_AXES:
        raise CheckpointError(f"a tensor of {len(shape)} axes, expected at most {MOST_AXES}")
    if len(shape) != len(strides) or any(
        type(n) is not int or not 0 <= n <= LARGEST for n in (offset, *shape, *strides)
    ):
        raise CheckpointError("a tensor's sizes, strides or offset: expected a number ≥ 0 and < 2^63 for each axis")
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
