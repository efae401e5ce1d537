"""Checkpoints of PyTorch and Lua Torch, told apart by what is in the file."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from latent_domains.common.files import expect_file
from latent_domains.common.program import ProgramError
from latent_domains.convert.torch import lua_resnet, pth, safetensors_file, t7
from latent_domains.convert.torch.lite0 import Lite0, lite0
from latent_domains.convert.torch.resnet import ResNet, residual_net
from latent_domains.convert.torch.state import state_dict, without_prefix
from latent_domains.convert.torch.tensors import CheckpointError, Tensor

Net = TypeVar("Net", ResNet, Lite0)

_OTHERS = (
    # how a file begins, and what it is then
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
    (b"version https://git-lfs", "a pointer of Git LFS, not the file itself"),
    (b"<", "a web page or XML, not the file itself"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"BZh", "a bzip2 archive"),
    (b"4\n1\n", "Lua Torch's text format: save it in the binary one"),
)

_EXPECTED = "expected a state dict of torch.save, safetensors or a binary .t7 of Lua Torch"


def read_resnet(path: Path, *, head: bool) -> ResNet:
    """The ResNet in a checkpoint of any of the formats; without ``head``, all but its classifier.

    Raises ProgramError naming the file if it is missing, damaged, of another format or another net's.
    """
    return _read(path, partial(residual_net, head=head))


def read_lite0(path: Path, *, head: bool) -> Lite0:
    """The EfficientNet-Lite0 in a checkpoint: as :func:`read_resnet`."""
    return _read(path, partial(lite0, head=head))


def _read(path: Path, net: Callable[[dict[str, Tensor]], Net]) -> Net:
    expect_file(path, "a checkpoint")
    try:
        tensors, notes = without_prefix(_tensors(path.read_bytes()))
        found = net(tensors)
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
    raise CheckpointError(f"{_other(data)}, {_EXPECTED}")


def _other(data: bytes) -> str:
    """Words for a file of none of the formats."""
    if not data:
        return "an empty file"
    for beginning, what in _OTHERS:
        if data[:64].lstrip().startswith(beginning):
            return what
    if data[257:262] == b"ustar":
        return "a tar archive (of PyTorch before 0.1.10, or another one)"
    if data[:4] == b"\3\0\0\0":
        return "a table of Lua Torch's and not a net"
    if data[:1] == b"\x80":
        return "a pickle, but none of torch.save's"
    return f"{len(data)} bytes of a format that is not known here"
