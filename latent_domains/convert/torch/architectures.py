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
from latent_domains.convert.torch.tensors import CheckpointError, escaped
from latent_domains.nets import lite0, resnet
from latent_domains.nets.resnet import DEPTHS, STAGES, convolution_name, normalisation_name

EPS = 1e-5
"""Added to variances, by PyTorch and by Caffe."""

LITE0_EPS = 1e-3
"""Added to variances in EfficientNet-Lite0."""

_RESNETS = "ResNet18, ResNet34 or ResNet50"


def resnet_of(layers: int) -> Architecture:
    """The ResNet of so many layers."""
    features = STAGES[-1][1] * DEPTHS[layers].expansion
    definition = partial(resnet.converted_net, layers)
    units = tuple(_units_of_resnet(layers))
    return Architecture(f"ResNet{layers}", f"resnet{layers}", units, "fc", features, EPS, definition)


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
        raise CheckpointError(f"its tensors are {names}: expected those of {_RESNETS}, or of EfficientNet-Lite0")
    shape = tensors["conv1.weight"].shape
    if shape != (64, 3, 7, 7):  # elsewhere the blocks are often the same
        raise CheckpointError(
            f"tensor conv1.weight is {by(shape)}, expected 64×3×7×7 as in {_RESNETS}: others are for small images"
        )
    counts = tuple(
        len({name.split(".")[1] for name in tensors if name.startswith(f"layer{stage - 1}.")}) for stage, _ in STAGES
    )
    convolutions = 3 if "layer1.0.conv3.weight" in tensors else 2
    for layers, depth in DEPTHS.items():
        if (counts, convolutions) == (depth.blocks, len(depth.kernels)):
            return resnet_of(layers)
    raise CheckpointError(
        f"a residual net of {' '.join(map(str, counts))} blocks of {convolutions} convolutions, expected {_RESNETS}"
    )


def _units_of_resnet(layers: int) -> Iterator[Unit]:
    """Every convolution with its BN, in the order of the net. A block's shortcut comes last, if it is projected."""

    def unit(convolution: str, bn: str, path: str, filters: int, channels: int, size: int) -> Unit:
        name, norm = convolution_name(path), normalisation_name("{layer}", path)
        return Unit(convolution, bn, name, norm, (filters, channels, size, size))

    yield unit("conv1", "bn1", "conv1", 64, 3, 7)
    depth, widths, entering = DEPTHS[layers], dict(STAGES), 64
    for stage, place, name in resnet.blocks(layers):
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
