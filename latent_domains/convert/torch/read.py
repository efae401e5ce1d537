"""Read checkpoints of PyTorch and Lua Torch, and ONNX files. The file's contents decide the format.

Programs wrap a net in modules (``module.``, ``backbone.``, ``featurizer.network.``) and its state dict in a dict of
other things. The keys of such dicts become the first parts of a name: ``state_dict.module.conv1.weight``.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, deserialize

from latent_domains.common.files import expect_file, read_bytes
from latent_domains.common.program import ProgramError
from latent_domains.common.wording import by, some
from latent_domains.convert.torch import onnx_resnet, pth, t7
from latent_domains.convert.torch.onnx_resnet import OnnxNet
from latent_domains.convert.torch.pth import NumpyArray, Unknown
from latent_domains.convert.torch.tensors import KINDS, MOST_AXES, escaped
from latent_domains.experiment.networks import NETWORKS
from latent_domains.models.onnx_file import is_onnx, is_safetensors, read_onnx
from latent_domains.networks.network import CheckpointError, Network, TorchLayout

_FLOATS = ("float64", "float32", "float16", "bfloat16")

Values = Mapping[str, NDArray[np.float32]]


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that was checked: every tensor of the net, finite and as float32, by PyTorch's names."""

    network: Network
    classes: int | None
    """None without the head."""
    values: Values
    notes: tuple[str, ...] = ()
    """Notes for the user."""
    own: OnnxNet | None = None
    """The net as its file computes it, if the file has more than tensors."""


Tensors = Mapping[str, NDArray]

_MARKS = tuple(dict.fromkeys(network.torch.mark for network in NETWORKS.values() if network.torch))

_DEEPEST = 8
"""How deep dicts within dicts are read."""

_MOST = 10**6
"""The most dicts and tensors that are read: dicts that contain the same dict many times turn a few lines into billions.
"""


def named_tensors(saved: Any) -> dict[str, NDArray]:
    """Return all tensors in a saved object by their names, which begin with the keys of the dicts around them.

    Raises CheckpointError if there are none.
    """
    found: dict[str, NDArray] = {}
    for number, (name, value) in enumerate(_walk(saved, "", frozenset())):
        if number > _MOST:
            raise CheckpointError(f"it holds more than {_MOST:,} dicts and tensors, expected a state dict")
        if not isinstance(value, np.ndarray):
            continue
        if name in found:
            raise CheckpointError(f"two tensors in it are called {escaped(name)}, expected names that differ")
        found[name] = value
    if not found:
        objects = [saved, *(saved.values() if isinstance(saved, dict) else ())]
        unknown = dict.fromkeys(type(one).__name__ for one in objects if isinstance(one, Unknown))
        what = f"objects of {some(map(escaped, unknown), 3)}" if unknown else f"a {type(saved).__name__}"
        raise CheckpointError(
            f"it holds {what} and no tensor by name, expected a state dict. If a whole model was saved, load it where "
            "its code is and save torch.save(model.state_dict(), FILE)"
        )
    return found


def _walk(value: Any, name: str, within: frozenset[int]) -> Iterator[tuple[str, Any]]:
    """Yield the dicts and tensors in dicts of dicts by their names; a dict comes before its contents."""
    if isinstance(value, NumpyArray):
        value = value.values
    if name and isinstance(value, dict | np.ndarray):
        yield name, value
    if isinstance(value, dict) and len(within) < _DEEPEST and id(value) not in within:
        for key, one in value.items():
            if isinstance(key, str | int):
                yield from _walk(one, f"{name}.{key}" if name else str(key), within | {id(value)})


def find_net(tensors: Tensors, prefix: str | None = None) -> tuple[dict[str, NDArray], tuple[str, ...]]:
    """Return the tensors of the net below ``prefix`` (None: the only one), by its own names; and notes for the user.

    If several prefixes have the same tensors, any of them is used. Without a known net, all tensors are returned.
    Raises CheckpointError if nets below several prefixes differ, or if there is none below ``prefix``.
    """
    nets = {found: _below(tensors, found) for found in _prefixes(tensors)}
    if prefix is not None:
        given = prefix.rstrip(".")
        chosen = {found: net for found, net in nets.items() if f".{found}".endswith(f".{given}." if given else ".")}
        if exact := chosen.get(f"{given}." if given else ""):
            chosen = {f"{given}." if given else "": exact}
        if not chosen:
            raise CheckpointError(f"--prefix {escaped(prefix)}: found no known net there, expected {_named(nets)}")
        nets = chosen
    if not nets:
        return dict(tensors), ()
    nets = {found: net for found, net in nets.items() if _is_whole(net)} or nets
    first, *others = nets
    if any(_differ(nets[first], nets[other]) for other in others):
        raise CheckpointError(f"nets that differ lie below {_named(nets)}: --prefix chooses one")
    left = [name for name in tensors if not name.startswith(tuple(nets))]
    notes = [f"the net is below the prefix {escaped(first)}"] if first else []
    notes += [f"left out: {some(map(escaped, left), 5)}"] if left else []
    return nets[first], tuple(notes)


def _prefixes(tensors: Tensors) -> dict[str, None]:
    """Return the prefixes of the marks of known nets, in the order of the tensors."""
    found = [name.removesuffix(mark) for name in tensors for mark in _MARKS if name.endswith(mark)]
    return dict.fromkeys(prefix for prefix in found if not prefix or prefix.endswith("."))


def _below(tensors: Tensors, prefix: str) -> dict[str, NDArray]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _is_whole(net: Tensors) -> bool:
    """Say whether all tensors of the network, except a classifier's, are there."""
    try:
        return net.keys() >= find_network(net).torch.shapes().keys()
    except CheckpointError:
        return False


def _differ(net: Tensors, other: Tensors) -> bool:
    """Say whether two nets have other tensors."""
    return net.keys() != other.keys() or any(
        tensor is not other[name] and not np.array_equal(tensor, other[name]) for name, tensor in net.items()
    )


def _named(nets: Mapping[str, Tensors]) -> str:
    return some((escaped(prefix) if prefix else "no prefix" for prefix in nets), 5) or "one of none"


_EXPECTED = "expected a state dict of torch.save, safetensors, ONNX or a binary .t7 of Lua Torch"

_SAFETENSORS = {name: dtype for dtype, (_, name) in KINDS.items()}


def read_checkpoint(path: Path, *, head: bool, prefix: str | None = None) -> Checkpoint:
    """Return the net in a checkpoint of any format, below ``prefix``; without ``head``, all but its classifier."""
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
    """Return the tensors by name. Raises CheckpointError."""
    if data.startswith(b"PK\x03\x04"):
        return named_tensors(pth.read_zip(data))
    if pth.is_legacy(data):
        return named_tensors(pth.read_legacy(data))
    if is_safetensors(data):
        return read_safetensors(data)
    if data[:4] == b"\4\0\0\0":  # a Lua object
        return t7.state_dict(t7.read(data))
    if data[:64].lstrip().startswith((b"<", b"version https://git-lfs")):
        raise CheckpointError(f"a web page or a pointer of Git LFS, not the file itself, {_EXPECTED}")
    raise CheckpointError(f"{len(data)} bytes of a format that is not known here, {_EXPECTED}")


def read_safetensors(data: bytes) -> dict[str, NDArray]:
    """Return the tensors of a safetensors file.

    Raises CheckpointError if it is damaged or holds numbers of another kind.
    """
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


def find_network(tensors: Mapping[str, NDArray]) -> Network:
    """Return the network of ``tensors``. Raises CheckpointError if none here has such tensors."""
    known = {network.title: network for network in NETWORKS.values() if network.torch}
    for network in known.values():
        if {network.torch.mark, f"{network.torch.units[0].convolution}.weight"} <= tensors.keys():
            return network.torch.variant(tensors) if network.torch.variant else network
    names = some(map(escaped, sorted(tensors)), 10)
    raise CheckpointError(f"its tensors are {names}: expected those of {', '.join(known)}")


def take(tensors: Mapping[str, NDArray], network: Network, *, head: bool) -> Checkpoint:
    """Check that ``tensors`` are those of the network, and read them; without ``head``, all but its classifier's.

    Raises CheckpointError naming the tensors that are missing, too many, of another shape or not finite.
    """
    net = network.torch
    of_head = [name for name in tensors if name.startswith(f"{net.classifier}.")]
    shapes, classes = net.shapes(), None
    if head:
        weight = tensors.get(f"{net.classifier}.weight")
        classes = len(weight) if weight is not None and weight.ndim else 0
        shapes |= {f"{net.classifier}.weight": (classes, net.features), f"{net.classifier}.bias": (classes,)}
    else:
        tensors = {name: tensor for name, tensor in tensors.items() if name not in of_head}

    missing = [name for name in shapes if name not in tensors]
    extra = [name for name in tensors if name not in shapes and not name.endswith(".num_batches_tracked")]
    if missing or extra:
        named = [
            f"{word} {some(map(escaped, names))}" for word, names in (("lacking", missing), ("with", extra)) if names
        ]
        wrong = f"{' and '.join(named)}{_advice(net, *missing, *extra)}"
        raise CheckpointError(f"{network.title} by its blocks, but {wrong}")
    for name, shape in shapes.items():
        if tensors[name].shape != shape or not tensors[name].size:
            expected = f"{by(shape)} in {network.title}{_advice(net, name)}"
            raise CheckpointError(f"tensor {name} is {by(tensors[name].shape)}, expected {expected}")
    return Checkpoint(network, classes, {name: _values(name, tensors[name]) for name in shapes})


def _advice(net: TorchLayout, *wrong: str) -> str:
    """Return the option that helps if nothing but the classifier is ``wrong``."""
    of_head = all(name.startswith(f"{net.classifier}.") for name in wrong)
    return "; --no-head leaves the classifier out" if of_head else ""


def _values(name: str, tensor: NDArray) -> NDArray[np.float32]:
    """Return the numbers as float32, in an array of their own."""
    if tensor.dtype.name not in _FLOATS:
        raise CheckpointError(f"tensor {name}: numbers of {tensor.dtype}, expected {', '.join(_FLOATS)}")
    with np.errstate(over="ignore"):  # beyond float32 is infinite, and refused below
        values = np.array(tensor, np.float32, order="C")
    if not np.isfinite(values).all():
        raise CheckpointError(f"tensor {name} holds {(~np.isfinite(values)).sum()} numbers that are not finite")
    if name.endswith("running_var") and values.min() < 0:
        raise CheckpointError(f"tensor {name} holds a variance of {values.min():g}, expected none below 0")
    return values
