"""What a ResNet of PyTorch holds: the names and shapes of its tensors, and the check that they are there.

Names are those of torchvision's state dicts, which timm's plain nets share: conv1.weight, layer1.0.bn2.running_var, …
"""

from collections.abc import Mapping
from dataclasses import dataclass
from string import ascii_lowercase

from latent_domains.common.wording import by
from latent_domains.convert.torch.architectures import described
from latent_domains.convert.torch.contents import STATISTICS, Values, take
from latent_domains.convert.torch.state import check_alone
from latent_domains.convert.torch.tensors import CheckpointError, Tensor
from latent_domains.nets.resnet import DEPTHS, STAGES, blocks

EPS = 1e-5
"""What PyTorch adds to the variance, and Caffe."""

_DEPTHS = [f"ResNet{layers}" for layers in DEPTHS]
_KNOWN = f"{', '.join(_DEPTHS[:-1])} or {_DEPTHS[-1]}"


@dataclass(frozen=True)
class Unit:
    """A convolution and its BN: what PyTorch calls them, what Caffe does, and the shape of the weights."""

    convolution: str
    bn: str
    path: str
    """conv1, or as in res2a_branch2a without the res."""
    filters: int
    channels: int
    kernel_size: int


@dataclass(frozen=True)
class ResNet:
    """A checkpoint that was checked: every tensor of the net, finite and as float32, by torchvision's names."""

    layers: int
    classes: int | None
    """None where the head is not there or not wanted."""
    values: Values
    notes: tuple[str, ...]
    """What was done to names and numbers, and what was left out."""


def units(layers: int) -> list[Unit]:
    """Every convolution with its BN, in the order of the net. A block's shortcut comes last, if it is projected."""
    found = [Unit("conv1", "bn1", "conv1", 64, 3, 7)]
    depth, widths = DEPTHS[layers], dict(STAGES)
    entering = found[0].filters
    for stage, place, name in blocks(layers):
        block, filters = f"layer{stage - 1}.{place}", widths[stage]
        leaving = filters * depth.expansion
        channels = [entering, *[filters] * (len(depth.kernels) - 1), leaving]
        for number, kernel_size in enumerate(depth.kernels, 1):
            names = (f"{block}.conv{number}", f"{block}.bn{number}", f"{name}_branch2{ascii_lowercase[number - 1]}")
            found.append(Unit(*names, channels[number], channels[number - 1], kernel_size))
        if entering != leaving:
            names = (f"{block}.downsample.0", f"{block}.downsample.1", f"{name}_branch1")
            found.append(Unit(*names, leaving, entering, 1))
        entering = leaving
    return found


def features(layers: int) -> int:
    """Inputs of the classifier."""
    return STAGES[-1][1] * DEPTHS[layers].expansion


def shapes(layers: int) -> dict[str, tuple[int, ...]]:
    """Shape of each tensor but the head's."""
    found: dict[str, tuple[int, ...]] = {}
    for unit in units(layers):
        found[f"{unit.convolution}.weight"] = (unit.filters, unit.channels, unit.kernel_size, unit.kernel_size)
        found |= {f"{unit.bn}.{statistic}": (unit.filters,) for statistic in STATISTICS}
    return found


def residual_net(tensors: Mapping[str, Tensor], *, head: bool) -> ResNet:
    """Check that ``tensors`` are those of a ResNet known here, and read them; without ``head``, all but ``fc``'s.

    Raises CheckpointError naming the tensors that are missing, too many, of another shape or not finite, or saying
    which other net it looks like.
    """
    layers = _layers(tensors)
    return ResNet(layers, *take(tensors, shapes(layers), f"a ResNet{layers}", ("fc", features(layers)), head))


def _layers(tensors: Mapping[str, Tensor]) -> int:
    """The depth, by the numbers of blocks and of convolutions in one."""
    if "conv1.weight" not in tensors or "layer1.0.conv1.weight" not in tensors:
        check_alone(tensors, "layer1.0.conv1.weight", "a residual net")
        raise CheckpointError(f"{described(tensors)}, expected {_KNOWN}")
    _check_stem(tensors["conv1.weight"].shape)
    counts = tuple(
        len({name.split(".")[1] for name in tensors if name.startswith(f"layer{stage - 1}.")}) for stage, _ in STAGES
    )
    convolutions = 3 if "layer1.0.conv3.weight" in tensors else 2
    for layers, depth in DEPTHS.items():
        if (counts, convolutions) == (depth.blocks, len(depth.kernels)):
            return layers
    if convolutions == 3:
        raise CheckpointError(f"{described(tensors)}, expected {_KNOWN}")
    wanted = " or ".join(
        f"{' '.join(map(str, depth.blocks))} of ResNet{layers}"
        for layers, depth in DEPTHS.items()
        if len(depth.kernels) == convolutions
    )
    raise CheckpointError(f"a residual net of {' '.join(map(str, counts))} blocks in its stages, expected {wanted}")


def _check_stem(shape: tuple[int, ...]) -> None:
    """Raise CheckpointError if conv1 is not ImageNet's: elsewhere the blocks are often the same."""
    if shape == (64, 3, 7, 7):
        return
    use = ""
    if shape[1:2] == (1,):
        use = " (for gray images)"
    elif shape[2:] == (3, 3):
        use = " (for small images, such as CIFAR's)"
    raise CheckpointError(f"tensor conv1.weight is {by(shape)}{use}, expected 64×3×7×7 as in {_KNOWN}")
