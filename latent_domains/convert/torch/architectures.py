"""The nets that checkpoints are converted of: their layers in PyTorch and in Caffe, and how they are told apart.

A ResNet's names are those of torchvision's state dicts, which timm's plain nets share: conv1.weight,
layer1.0.bn2.running_var, … EfficientNet-Lite0's are those of the package efficientnet-lite-pytorch: _conv_stem.weight,
_blocks.0._bn1.running_var, …
"""

from collections.abc import Iterator, Mapping
from functools import partial
from string import ascii_lowercase

from numpy.typing import NDArray

from latent_domains.common.wording import by, some
from latent_domains.convert.torch.contents import Architecture, Unit
from latent_domains.convert.torch.tensors import EPS, CheckpointError, escaped
from latent_domains.nets import lite0, resnet
from latent_domains.nets.resnet import (
    DEPTHS,
    STAGES,
    Depth,
    basic_blocks,
    bottlenecks,
    convolution_name,
    normalisation_name,
)

LITE0_EPS = 1e-3
"""Added to variances in EfficientNet-Lite0."""

MOST_BLOCKS = 100
"""Of a stage: far beyond those of the deepest nets."""


def resnet_of(depth: Depth | int) -> Architecture:
    """The ResNet of a depth, or of so many layers if it is one of DEPTHS."""
    depth = DEPTHS[depth] if isinstance(depth, int) else depth
    counts = " ".join(map(str, depth.blocks))
    named = next((layers for layers, known in DEPTHS.items() if known == depth), None)
    title = f"ResNet{named}" if named else f"ResNet of {counts} {'blocks' if depth.expansion == 1 else 'bottlenecks'}"
    name = f"resnet{named}" if named else f"resnet_{counts.replace(' ', '_')}"
    features = STAGES[-1][1] * depth.expansion
    units = tuple(_units_of_resnet(depth))
    return Architecture(title, name, units, "fc", features, EPS, partial(resnet.converted_net, depth), depth)


def lite0_net() -> Architecture:
    """EfficientNet-Lite0."""
    units = tuple(_units_of_lite0())
    return Architecture("EfficientNet-Lite0", "lite0", units, "_fc", lite0.HEAD, LITE0_EPS, lite0.converted_net)


def find_architecture(tensors: Mapping[str, NDArray]) -> Architecture:
    """The net of ``tensors``. ResNets are told apart by the numbers of blocks and of convolutions in one.

    Raises CheckpointError if no net here has such tensors.
    """
    if "_conv_stem.weight" in tensors:
        return lite0_net()
    if "conv1.weight" not in tensors or "layer1.0.conv1.weight" not in tensors:
        names = some(map(escaped, sorted(tensors)), 10)
        raise CheckpointError(f"its tensors are {names}: expected those of a ResNet, or of EfficientNet-Lite0")
    shape = tensors["conv1.weight"].shape
    if shape != (64, 3, 7, 7):  # elsewhere the blocks are often the same
        raise CheckpointError(
            f"tensor conv1.weight is {by(shape)}, expected 64×3×7×7 as in ResNet18: others are for small images"
        )
    stages = tuple(f"layer{stage - 1}" for stage, _ in STAGES)
    places = {stage: {name.split(".")[1] for name in tensors if name.startswith(f"{stage}.")} for stage in stages}
    for stage, found in places.items():
        if not 0 < len(found) <= MOST_BLOCKS:
            raise CheckpointError(f"{stage} has {len(found)} blocks, expected 1 to {MOST_BLOCKS}")
    kind = bottlenecks if "layer1.0.conv3.weight" in tensors else basic_blocks
    return resnet_of(kind(*(len(found) for found in places.values())))


def _units_of_resnet(depth: Depth) -> Iterator[Unit]:
    """Every convolution with its BN, in the order of the net. A block's shortcut comes last, if it is projected."""

    def unit(convolution: str, bn: str, path: str, filters: int, channels: int, size: int) -> Unit:
        name, norm = convolution_name(path), normalisation_name("{layer}", path)
        return Unit(convolution, bn, name, norm, (filters, channels, size, size))

    yield unit("conv1", "bn1", "conv1", 64, 3, 7)
    widths, entering = dict(STAGES), 64
    for stage, place, name in resnet.blocks(depth):
        block, filters = f"layer{stage - 1}.{place}", widths[stage]
        leaving = filters * depth.expansion
        channels = [entering, *[filters] * (len(depth.kernels) - 1), leaving]
        for number, size in enumerate(depth.kernels, 1):
            path = f"{name}_branch2{ascii_lowercase[number - 1]}"
            yield unit(
                f"{block}.conv{number}", f"{block}.bn{number}", path, channels[number], channels[number - 1], size
            )
        if entering != leaving:
            yield unit(f"{block}.downsample.0", f"{block}.downsample.1", f"{name}_branch1", leaving, entering, 1)
        entering = leaving


def _units_of_lite0() -> Iterator[Unit]:
    """Every convolution with its BN, in the order of the net."""

    def unit(convolution: str, bn: str, name: str, filters: int, channels: int, size: int = 1) -> Unit:
        return Unit(convolution, bn, name, f"{name}_{{layer}}", (filters, channels, size, size))

    yield unit("_conv_stem", "_bn0", "conv1", lite0.STEM, 3, 3)
    for place, block in enumerate(lite0.blocks()):
        path, name = f"_blocks.{place}", block.name
        if block.expands:
            yield unit(f"{path}._expand_conv", f"{path}._bn0", f"{name}_expand", block.wide, block.channels)
        yield unit(f"{path}._depthwise_conv", f"{path}._bn1", f"{name}_depthwise", block.wide, 1, block.kernel_size)
        yield unit(f"{path}._project_conv", f"{path}._bn2", f"{name}_project", block.filters, block.wide)
    yield unit("_conv_head", "_bn1", "conv2", lite0.HEAD, block.filters)
