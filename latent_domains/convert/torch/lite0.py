"""EfficientNet-Lite0 of PyTorch: what a checkpoint must hold, and its weights in the layers of Caffe's net.

Names are those of the package efficientnet-lite-pytorch: _conv_stem.weight, _blocks.0._bn1.running_var, …
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from latent_domains.convert.fold.fold import fold
from latent_domains.convert.torch.architectures import described
from latent_domains.convert.torch.contents import STATISTICS, Values, take
from latent_domains.convert.torch.state import check_alone
from latent_domains.convert.torch.tensors import CheckpointError, Tensor
from latent_domains.convert.torch.torch_resnet import MOVING_AVERAGE_FRACTION, Standardisation, bn_blobs, mda_blobs
from latent_domains.experiment.networks import NETWORKS
from latent_domains.models.model import Array, Model
from latent_domains.nets.blocks import Normalisation
from latent_domains.nets.lite0 import HEAD, STEM, blocks, converted_net

STANDARDISATION = Standardisation((127 / 255,) * 3, (128 / 255,) * 3)
"""TensorFlow's training of it: (p - 127) / 128, R, G, B."""


@dataclass(frozen=True)
class Unit:
    """A convolution and its BN: what PyTorch calls them, what Caffe does, and the weights' shape."""

    convolution: str
    bn: str
    name: str
    shape: tuple[int, int, int, int]
    stride: int = 1


@dataclass(frozen=True)
class Lite0:
    """A checkpoint that was checked: every tensor of the net, finite and as float32, by the package's names."""

    classes: int | None
    """None where the head is not wanted."""
    values: Values
    notes: tuple[str, ...]
    """What was done to names and numbers, and what was left out."""


def units() -> Iterator[Unit]:
    """Every convolution with its BN, in the order of the net."""
    yield Unit("_conv_stem", "_bn0", "conv1", (STEM, 3, 3, 3), 2)
    for place, block in enumerate(blocks()):
        path, size = f"_blocks.{place}", block.kernel_size
        if block.expands:
            shape = (block.wide, block.channels, 1, 1)
            yield Unit(f"{path}._expand_conv", f"{path}._bn0", f"{block.name}_expand", shape)
        shape = (block.wide, 1, size, size)
        yield Unit(f"{path}._depthwise_conv", f"{path}._bn1", f"{block.name}_depthwise", shape, block.stride)
        shape = (block.filters, block.wide, 1, 1)
        yield Unit(f"{path}._project_conv", f"{path}._bn2", f"{block.name}_project", shape)
    yield Unit("_conv_head", "_bn1", "conv2", (HEAD, block.filters, 1, 1))


def shapes() -> dict[str, tuple[int, ...]]:
    """Shape of each tensor but the head's."""
    found: dict[str, tuple[int, ...]] = {}
    for unit in units():
        found[f"{unit.convolution}.weight"] = unit.shape
        found |= {f"{unit.bn}.{statistic}": unit.shape[:1] for statistic in STATISTICS}
    return found


def lite0(tensors: Mapping[str, Tensor], *, head: bool) -> Lite0:
    """Check that ``tensors`` are those of EfficientNet-Lite0, and read them; without ``head``, all but ``_fc``'s.

    Raises CheckpointError naming the tensors that are missing, too many, of another shape or not finite, or saying
    which other net it looks like.
    """
    if "_conv_stem.weight" not in tensors:
        check_alone(tensors, "_conv_stem.weight", "an EfficientNet")
        raise CheckpointError(f"{described(tensors)}, expected EfficientNet-Lite0")
    return Lite0(*take(tensors, shapes(), "an EfficientNet-Lite0", ("_fc", HEAD), head))


def plain_model(net: Lite0) -> Model:
    """The net itself, with BN and, if the checkpoint has it, the head; B, G, R less 127 and over 128 enter."""
    blobs = _blobs(net, "bn", bn_blobs)
    if net.classes is not None:
        blobs[f"fc{net.classes}"] = [net.values["_fc.weight"], net.values["_fc.bias"]]
    return _model(Normalisation("bn", 0, MOVING_AVERAGE_FRACTION), net.classes, blobs)


def mda_model(net: Lite0, num_domains: int) -> Model:
    """The same up to the features with mDA in place of every BN but conv1's.

    Every one of the domains begins with the checkpoint's statistics.
    """
    blobs = _blobs(net, "mda", partial(mda_blobs, num_domains))
    return _model(Normalisation("mda", num_domains, MOVING_AVERAGE_FRACTION), None, blobs)


def folded_model(net: Lite0) -> Model:
    """The net itself with its BN, and the division by 128, in the convolutions: B, G, R less 127 enter."""
    folded = fold(plain_model(net), stock=False).model
    folded.blobs["conv1"][0] = folded.blobs["conv1"][0] * np.float32(NETWORKS["lite0"].pixels.scale)
    return folded


def bgr(weights: Array) -> Array:
    """The first convolution (filters×3×h×w) for B, G, R."""
    return np.ascontiguousarray(weights[:, ::-1])


def _model(normalise: Normalisation, classes: int | None, blobs: Mapping[str, list[Array]]) -> Model:
    definition = converted_net(normalise, classes).to_proto()
    definition.name = "lite0" if normalise.layer == "bn" else f"lite0_{normalise.layer}"
    return Model(definition, blobs)


def _blobs(net: Lite0, layer: str, statistics: Callable[[Array, Array], list[Array]]) -> dict[str, list[Array]]:
    """Blobs of every convolution, its Scale and its ``layer`` (but conv1's, which is always BN), by their names."""
    blobs: dict[str, list[Array]] = {}
    for unit in units():
        weights = net.values[f"{unit.convolution}.weight"]
        gamma, beta, *moments = (net.values[f"{unit.bn}.{statistic}"] for statistic in STATISTICS)
        name, make = f"{unit.name}_{layer}", statistics
        if unit.name == "conv1":
            weights, name, make = bgr(weights), "conv1_bn", bn_blobs
        blobs[unit.name] = [weights]
        blobs[name] = make(*moments)
        blobs[f"{unit.name}_scale"] = [gamma, beta]
    return blobs
