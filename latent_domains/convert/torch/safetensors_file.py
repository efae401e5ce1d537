"""Safetensors: a list of tensors by name, read by the library that defines the format."""

from functools import partial

import numpy as np
from safetensors import SafetensorError, deserialize

from latent_domains.convert.torch.tensors import MOST_AXES, RAW, CheckpointError, Tensor
from latent_domains.convert.torch.words import plain, shown

_KINDS = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U8": "uint8",
    "BOOL": "bool",
}


def read(data: bytes) -> dict[str, Tensor]:
    """The tensors of a file by name. Raises CheckpointError if it is damaged or holds numbers of another kind."""
    try:
        entries = deserialize(data)
    except SafetensorError as error:
        raise CheckpointError(f"a damaged or truncated safetensors file: {plain(str(error))}") from error
    tensors = {}
    for name, entry in entries:
        if entry["dtype"] not in _KINDS:
            raise CheckpointError(
                f"tensor {plain(name)}: numbers of {plain(entry['dtype'])}, expected one of {', '.join(_KINDS)}"
            )
        kind, shape = _KINDS[entry["dtype"]], tuple(entry["shape"])
        try:
            if len(shape) > MOST_AXES:
                raise ValueError
            numbers = np.frombuffer(entry["data"], RAW[kind]).reshape(shape)
        except (ValueError, OverflowError) as error:  # one size of 0 makes room for any others
            raise CheckpointError(
                f"tensor {plain(name)} of {len(shape)} axes with sizes {shown(shape)}: expected at most {MOST_AXES} "
                "axes, and sizes of an array"
            ) from error
        tensors[name] = Tensor(kind, shape, partial(np.asarray, numbers))
    return tensors
