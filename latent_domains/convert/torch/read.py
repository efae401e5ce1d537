"""Reads checkpoints of PyTorch and Lua Torch, and ONNX files. The format is known by the file's contents."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, deserialize

from latent_domains.common.files import expect_file, read_bytes
from latent_domains.common.program import ProgramError
from latent_domains.convert.torch import lua_resnet, onnx_resnet, pth, t7
from latent_domains.convert.torch.contents import Checkpoint, find_network, take
from latent_domains.convert.torch.prefixes import find_net, named_tensors
from latent_domains.convert.torch.tensors import KINDS, MOST_AXES, CheckpointError, escaped
from latent_domains.models.onnx_file import is_onnx, is_safetensors, read_onnx

_EXPECTED = "expected a state dict of torch.save, safetensors, ONNX or a binary .t7 of Lua Torch"

_SAFETENSORS = {name: dtype for dtype, (_, name) in KINDS.items()}


def read_checkpoint(path: Path, *, head: bool, prefix: str | None = None) -> Checkpoint:
    """The net in a checkpoint of any of the formats, below ``prefix``; without ``head``, all but its classifier.

    Raises ProgramError naming the file if it is missing, damaged, of another format or of an unknown net.
    """
    expect_file(path, "a checkpoint")
    try:
        data = read_bytes(path)
        if is_onnx(data):
            if prefix is not None:
                raise CheckpointError(f"--prefix {escaped(prefix)}: an ONNX file holds one net, expected no prefix")
            tensors, own = onnx_resnet.read(read_onnx(path), str(path))
            head = head and "fc.weight" in tensors  # of features alone: nothing is missing
            return replace(take(tensors, find_network(tensors), head=head), own=own)
        tensors, notes = find_net(_tensors(data), prefix)
        return replace(take(tensors, find_network(tensors), head=head), notes=notes)
    except CheckpointError as error:
        raise ProgramError(f"{path}: {error}") from error


def _tensors(data: bytes) -> dict[str, NDArray]:
    """The tensors by name. Raises CheckpointError."""
    if data.startswith(b"PK\x03\x04"):
        return named_tensors(pth.read_zip(data))
    if pth.is_legacy(data):
        return named_tensors(pth.read_legacy(data))
    if is_safetensors(data):
        return read_safetensors(data)
    if data[:4] == b"\4\0\0\0":  # a Lua object
        return lua_resnet.state_dict(t7.read(data))
    if data[:64].lstrip().startswith((b"<", b"version https://git-lfs")):
        raise CheckpointError(f"a web page or a pointer of Git LFS, not the file itself, {_EXPECTED}")
    raise CheckpointError(f"{len(data)} bytes of a format that is not known here, {_EXPECTED}")


def read_safetensors(data: bytes) -> dict[str, NDArray]:
    """The tensors of a safetensors file. Raises CheckpointError if it is damaged or holds numbers of another kind."""
    tensors = {}
    try:
        for name, entry in deserialize(data):
            if entry["dtype"] not in _SAFETENSORS or len(entry["shape"]) > MOST_AXES:
                raise CheckpointError(
                    f"tensor {escaped(name)}: {len(entry['shape'])} axes of {escaped(entry['dtype'])}, expected at "
                    f"most {MOST_AXES} of {', '.join(_SAFETENSORS)}"
                )
            tensors[name] = np.frombuffer(entry["data"], _SAFETENSORS[entry["dtype"]]).reshape(entry["shape"])
    except (SafetensorError, ValueError, OverflowError) as error:  # a size of 0 makes room for any others
        raise CheckpointError(f"a damaged or truncated safetensors file: {escaped(str(error))}") from error
    return tensors
