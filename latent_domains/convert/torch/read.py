"""Reads checkpoints of PyTorch and Lua Torch. The format is known by the file's contents."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from latent_domains.common.files import expect_file
from latent_domains.common.program import ProgramError
from latent_domains.convert.torch import lua_resnet, pth, safetensors_file, t7
from latent_domains.convert.torch.architectures import find_lite0, find_resnet
from latent_domains.convert.torch.contents import Architecture, Checkpoint, take
from latent_domains.convert.torch.state import state_dict, without_prefix
from latent_domains.convert.torch.tensors import CheckpointError, Tensor

_EXPECTED = "expected a state dict of torch.save, safetensors or a binary .t7 of Lua Torch"


def read_resnet(path: Path, *, head: bool) -> Checkpoint:
    """The ResNet in a checkpoint of any of the formats; without ``head``, all but its classifier.

    Raises ProgramError naming the file if it is missing, damaged, of another format or another net's.
    """
    return _read(path, find_resnet, head)


def read_lite0(path: Path, *, head: bool) -> Checkpoint:
    """The EfficientNet-Lite0 in a checkpoint: as :func:`read_resnet`."""
    return _read(path, find_lite0, head)


def _read(path: Path, find: Callable[[Mapping[str, Tensor]], Architecture], head: bool) -> Checkpoint:
    expect_file(path, "a checkpoint")
    try:
        tensors, notes = without_prefix(_tensors(path.read_bytes()))
        found = take(tensors, find(tensors), head=head)
        return replace(found, notes=(*notes, *found.notes))
    except CheckpointError as error:
        raise ProgramError(f"{path}: {error}") from error


def _tensors(data: bytes) -> dict[str, Tensor]:
    """The tensors by name. Raises CheckpointError."""
    if data.startswith(b"PK\x03\x04"):
        return state_dict(pth.read_zip(data))
    if pth.is_legacy(data):
        return state_dict(pth.read_legacy(data))
    if data[8:9] == b"{":  # after the length of the header, which is JSON
        return safetensors_file.read(data)
    if data[:4] == b"\4\0\0\0":  # a Lua object
        return lua_resnet.state_dict(t7.read(data))
    if data[:64].lstrip().startswith((b"<", b"version https://git-lfs")):
        raise CheckpointError(f"a web page or a pointer of Git LFS, not the file itself, {_EXPECTED}")
    raise CheckpointError(f"{len(data)} bytes of a format that is not known here, {_EXPECTED}")
