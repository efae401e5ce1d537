"""Takes a net's tensors from a state dict and checks them: names, shapes and values."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from caffe.net_spec import NetSpec
from numpy.typing import NDArray

from latent_domains.common.wording import by, some
from latent_domains.convert.torch.onnx_resnet import OnnxNet
from latent_domains.convert.torch.tensors import STATISTICS, CheckpointError, escaped
from latent_domains.nets.blocks import Normalisation
from latent_domains.nets.resnet import Depth

_FLOATS = ("float64", "float32", "float16", "bfloat16")

Values = Mapping[str, NDArray[np.float32]]


@dataclass(frozen=True)
class Unit:
    """A convolution and its BN: what PyTorch calls them, what Caffe does, and the weights' shape."""

    convolution: str
    bn: str
    name: str
    """Of Caffe's convolution."""
    norm: str
    """Of the layers that normalise, as "{layer}2a_branch2a": layer is bn, mda or scale."""
    shape: tuple[int, int, int, int]


@dataclass(frozen=True)
class Architecture:
    """A net that is known here, in PyTorch and in Caffe."""

    title: str
    name: str
    units: tuple[Unit, ...]
    """In the order of the net; the first is conv1."""
    classifier: str
    """PyTorch's name for it."""
    features: int
    """Inputs of the classifier."""
    eps: float
    definition: Callable[[Normalisation, int | None], NetSpec]
    """The net in Caffe, with a head for so many classes or without."""
    depth: Depth | None = None
    """Of a ResNet."""

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of each tensor but the classifier's."""
        found: dict[str, tuple[int, ...]] = {}
        for unit in self.units:
            found[f"{unit.convolution}.weight"] = unit.shape
            found |= {f"{unit.bn}.{statistic}": unit.shape[:1] for statistic in STATISTICS}
        return found


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that was checked: every tensor of the net, finite and as float32, by PyTorch's names."""

    architecture: Architecture
    classes: int | None
    """None where the head is not wanted."""
    values: Values
    notes: tuple[str, ...] = ()
    """Notes for the user."""
    own: OnnxNet | None = None
    """The net as its file computes it, if the file holds more than tensors."""


def take(tensors: Mapping[str, NDArray], net: Architecture, *, head: bool) -> Checkpoint:
    """Check that ``tensors`` are those of the net, and read them; without ``head``, all but its classifier's.

    Raises CheckpointError naming the tensors that are missing, too many, of another shape or not finite.
    """
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
        raise CheckpointError(f"{net.title} by its blocks, but {' and '.join(named)}{_advice(net, *missing, *extra)}")
    for name, shape in shapes.items():
        if tensors[name].shape != shape or not tensors[name].size:
            raise CheckpointError(
                f"tensor {name} is {by(tensors[name].shape)}, expected {by(shape)} in {net.title}{_advice(net, name)}"
            )
    return Checkpoint(net, classes, {name: _values(name, tensors[name]) for name in shapes})


def _advice(net: Architecture, *wrong: str) -> str:
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
