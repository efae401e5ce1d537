"""Takes a net's tensors from a state dict and checks them: names, shapes and values."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from latent_domains.common.wording import by, some
from latent_domains.convert.torch.onnx_resnet import OnnxNet
from latent_domains.convert.torch.tensors import escaped
from latent_domains.experiment.networks import NETWORKS
from latent_domains.networks.network import CheckpointError, Network, TorchLayout

_FLOATS = ("float64", "float32", "float16", "bfloat16")

Values = Mapping[str, NDArray[np.float32]]


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that was checked: every tensor of the net, finite and as float32, by PyTorch's names."""

    network: Network
    classes: int | None
    """None where the head is not wanted."""
    values: Values
    notes: tuple[str, ...] = ()
    """Notes for the user."""
    own: OnnxNet | None = None
    """The net as its file computes it, if the file holds more than tensors."""


def find_network(tensors: Mapping[str, NDArray]) -> Network:
    """The network of ``tensors``. Raises CheckpointError if none here has such tensors."""
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
    """The option that helps if nothing but the classifier is ``wrong``."""
    of_head = all(name.startswith(f"{net.classifier}.") for name in wrong)
    return "; --no-head leaves the classifier out" if of_head else ""


def _values(name: str, tensor: NDArray) -> NDArray[np.float32]:
    """The numbers as float32, in an array of their own."""
    if tensor.dtype.name not in _FLOATS:
        raise CheckpointError(f"tensor {name}: numbers of {tensor.dtype}, expected {', '.join(_FLOATS)}")
    with np.errstate(over="ignore"):  # beyond float32 is infinite, and refused below
        values = np.array(tensor, np.float32, order="C")
    if not np.isfinite(values).all():
        raise CheckpointError(f"tensor {name} holds {(~np.isfinite(values)).sum()} numbers that are not finite")
    if name.endswith("running_var") and values.min() < 0:
        raise CheckpointError(f"tensor {name} holds a variance of {values.min():g}, expected none below 0")
    return values
