"""Files of ONNX models, the external data of their tensors in other files, and ONNX Runtime on the CPU."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from google.protobuf.message import DecodeError, Message
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, ValueInfoProto
from onnx.external_data_helper import uses_external_data

from latent_domains.common.files import Digest, expect_file, sha256
from latent_domains.common.program import ProgramError
from latent_domains.common.wording import by, one_line

_PACKED = {
    TensorProto.INT4: 2,
    TensorProto.UINT4: 2,
    TensorProto.FLOAT4E2M1: 2,
    TensorProto.INT2: 4,
    TensorProto.UINT2: 4,
}
"""Types that pack several numbers into a byte, and how many."""

_ONNX = b"\x08"
"""The key of a model's first field, the version of its format."""

HEAD = 9
"""Number of bytes at the beginning of a file that identify its format."""

_MOST = 2**31 - 1
"""The largest size, in bytes, of a Protocol Buffers message. ONNX Runtime gets a model as one message."""


@dataclass(frozen=True)
class _External:
    """The place of a tensor's numbers in another file."""

    tensor: TensorProto
    location: str
    """The file's name in the model."""
    file: Path
    offset: int
    length: int


def is_onnx(head: bytes) -> bool:
    """Say whether a file that begins with ``head``, HEAD bytes at least, is an ONNX model."""
    return head.startswith(_ONNX) and not is_safetensors(head)


def is_safetensors(head: bytes) -> bool:
    """Say whether a file begins with the length of a header, below 4 GiB, and a header of JSON."""
    return head[4:HEAD] == b"\0\0\0\0{"


def read_onnx(file: Path) -> ModelProto:
    """Read an ONNX model with its external data. Refuses external data outside the model's folder."""
    model, external = _read(file)
    if (size := model.ByteSize() + sum(one.length for one in external)) > _MOST:
        raise ProgramError(f"{file}: {size} bytes with its external data, expected at most {_MOST}")
    for one in external:
        with one.file.open("rb") as stream:
            stream.seek(one.offset)
            one.tensor.raw_data = stream.read(one.length)
        one.tensor.ClearField("external_data")
        one.tensor.ClearField("data_location")
    return model


def contents_sha256(file: Path) -> str:
    """Return the hash of a file of weights, with the external data of an ONNX model."""
    with file.open("rb") as stream:
        head = stream.read(HEAD)
    external = _read(file)[1] if is_onnx(head) else []
    if not external:
        return sha256(file)
    places = {one.location: one.file for one in external}
    return str(Digest([("", sha256(file)), *((name, sha256(places[name])) for name in sorted(places))]))


def check_onnx(file: Path) -> None:
    """Raise ProgramError where :func:`read_onnx` does, without reading the external data."""
    _read(file)


def _read(file: Path) -> tuple[ModelProto, list[_External]]:
    expect_file(file, "an ONNX model")
    try:
        model = onnx.load(str(file), load_external_data=False)
    except (DecodeError, OSError) as error:
        raise ProgramError(
            f"{file}: {file.stat().st_size} bytes that are not an ONNX model, or a truncated one: {one_line(error)}"
        ) from error
    if not model.graph.node:
        raise ProgramError(f"{file}: no ONNX model, or an empty one: its graph has no nodes")
    return model, [_external(file, tensor) for tensor in _tensors(model) if uses_external_data(tensor)]


def _tensors(message: Message) -> Iterator[TensorProto]:
    """Yield all tensors of a model: also those in attributes, subgraphs and functions, and the parts of sparse ones."""
    for field, value in message.ListFields():
        for part in (value if field.label == field.LABEL_REPEATED else [value]) if field.message_type else ():
            if isinstance(part, TensorProto):
                yield part
            else:
                yield from _tensors(part)


def _external(model: Path, tensor: TensorProto) -> _External:
    """Return the place of a tensor's external data. Refuses data outside the model's folder.

    A model may come from anybody: it must not read other files of this machine.
    """
    said = {entry.key: entry.value for entry in tensor.external_data}
    location, name = said.get("location", ""), f"tensor {tensor.name!r}"
    try:
        offset = int(said.get("offset", 0))
        values, each = prod(tensor.dims), onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize
        length = int(said.get("length", -(-values // _PACKED.get(tensor.data_type, 1)) * each))
        if min(offset, length) < 0:
            raise ValueError(f"offset {offset}, length {length}")
    except (ValueError, KeyError) as error:
        raise ProgramError(f"{model}: {name}: external data that make no sense: {one_line(error)}") from error
    folder = model.parent.resolve()
    inside = location and "\0" not in location and not Path(location).is_absolute()
    if not inside or not (model.parent / location).resolve().is_relative_to(folder):
        raise ProgramError(f"{model}: {name} has its data in {location!r}, expected a file in the folder {folder}")
    file, whose = model.parent / location, f"the external data of {model.name}, {name}"
    expect_file(file, whose)
    if (size := file.stat().st_size) < offset + length:
        raise ProgramError(f"{file}: {size} bytes, expected at least {offset + length}: {whose}")
    return _External(tensor, location, file, offset, length)


Array = NDArray[np.float32]

MADE_OF = "sha256 of the weights"
"""The key in a model's metadata for the hash of the caffemodel from which it was made."""


class Runtime:
    """An ONNX model (its bytes or its file) with ``threads`` threads (0: one per core).

    Messages begin with ``name``.
    """

    def __init__(self, model: bytes | str, *, name: str = "", threads: int = 0) -> None:
        self._name = f"{name}: " if name else ""
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = options.inter_op_num_threads = threads
        try:
            self._session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # its classes share no other base
            raise ProgramError(f"{self._name}ONNX Runtime refuses the model: {one_line(error)}") from error
        self.inputs = {value.name: tuple(value.shape) for value in self._session.get_inputs()}
        """The shape of each input: numbers, or names where the size is free."""
        self.outputs = {value.name: tuple(value.shape) for value in self._session.get_outputs()}
        """The shape of each output, likewise."""
        self.metadata: dict[str, str] = self._session.get_modelmeta().custom_metadata_map
        """The metadata of the model."""

    def forward(self, batch: Mapping[str, Array]) -> dict[str, Array]:
        """Return every output by its name."""
        names = list(self.outputs)
        rows = {name: np.ascontiguousarray(values) for name, values in batch.items()}
        try:
            return dict(zip(names, self._session.run(names, rows), strict=True))
        except Exception as error:
            shapes = ", ".join(f"{name} {by(values.shape)}" for name, values in batch.items())
            raise ProgramError(f"{self._name}ONNX Runtime fails on {shapes}: {one_line(error)}") from error


def with_outputs(model: ModelProto, names: Iterable[str]) -> ModelProto:
    """Return a copy whose outputs are the inner values of these ``names``, in this order."""
    copy = ModelProto()
    copy.CopyFrom(model)
    del copy.graph.output[:]
    copy.graph.output.extend(ValueInfoProto(name=name) for name in names)
    return copy
