"""EfficientNet-Lite0 (Tan and Le's EfficientNet-B0 without squeeze-and-excitation, ReLU6 for swish).

An inverted residual block is a 1×1 convolution that widens, a depthwise one (a group for each channel) and a 1×1
convolution that narrows, each with BN, the first two with ReLU6; its input is added where the shape is the same. mDA
stands in place of every BN but conv1's, behind which the branch begins, as in ResNets.

A convolution of stride 2 is padded as TensorFlow's "same" does, one pixel more below and right than above and left (for
even sizes, as all are here).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from string import ascii_lowercase

from caffe import layers as L
from caffe.net_spec import NetSpec, Top

from latent_domains.experiment.experiment import Experiment
from latent_domains.experiment.networks import NETWORKS
from latent_domains.nets.architecture import Architecture
from latent_domains.nets.blocks import GAUSSIAN, MSRA, Normalisation, convolution, global_average, inner_product
from latent_domains.nets.resnet import branch

EPS = 1e-3
"""Added to variances, as in its training."""

PREPROCESSING = replace(NETWORKS["lite0"].pixels, scale=1.0)
"""The input of the net that makes features: the division by 128 is in its first convolution."""

STEM, HEAD = 32, 1280
"""Filters of the first convolution and of the last, whose averages are the features."""

POOLED = "pool"
"""The blob of the features, N×1280×1×1."""

EARLY = ("block1a_project", "block2b")
"""The ends of the first two stages, N×16×112×112 and N×24×56×56: their channels' statistics tell domains apart."""


@dataclass(frozen=True)
class Block:
    """An inverted residual block; ``channels`` enter, ``filters`` leave; ``wide`` are those between."""

    name: str
    channels: int
    wide: int
    filters: int
    kernel_size: int
    stride: int

    @property
    def expands(self) -> bool:
        return self.wide > self.channels

    @property
    def adds_input(self) -> bool:
        return self.stride == 1 and self.channels == self.filters


_STAGES = (
    # blocks, kernel size, stride of the first block, how many times wider inside, filters
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)


def blocks() -> Iterator[Block]:
    """Every block, in order: 1a, 2a, 2b, …"""
    channels = STEM
    for stage, (count, kernel_size, stride, wider, filters) in enumerate(_STAGES, 1):
        for place in range(count):
            name = f"block{stage}{ascii_lowercase[place]}"
            yield Block(name, channels, wider * channels, filters, kernel_size, stride if place == 0 else 1)
            channels = filters


def stem(n: NetSpec, data: Top, experiment: Experiment) -> Top:
    """conv1 with the plain BN that it keeps. data: N×3×H×W; returns N×32×H/2×W/2."""
    return _stem(n, data, experiment.recipe.moving_average_fraction)


def trunk(n: NetSpec, conv1: Top, normalise: Normalisation, experiment: Experiment) -> Top:
    """The blocks and the classifier. Returns class scores N×classes."""
    x = _pooled(n, conv1, normalise)
    return inner_product(n, "classifier", x, experiment.data.classes, bias=True, filler=GAUSSIAN, lr_mult=10)


LITE0 = Architecture(stem, branch, trunk, branch_sees_all=True)
"""Its branch is that of ResNets."""


def converted_net(normalise: Normalisation, classes: int | None) -> NetSpec:
    """The net as its weights come from PyTorch: the deploy net of no experiment.

    conv1 keeps a plain BN whatever ``normalise`` is. With ``classes`` it ends in their probabilities, and its head is
    called after their number (fc1000), never like an experiment's classifier; without, in the features.
    """
    n = NetSpec()
    n.data = L.Input(shape={"dim": [1, *PREPROCESSING.shape]})
    x = _pooled(n, _stem(n, n.data, normalise.moving_average_fraction), normalise)
    if classes is not None:
        n.prob = L.Softmax(inner_product(n, f"fc{classes}", x, classes, bias=True, filler=GAUSSIAN))
    return n


def pads(kernel_size: int, stride: int) -> dict[str, int]:
    """TensorFlow's "same", as fields of a convolution."""
    half = kernel_size // 2
    found = {"pad": half} if stride == 1 else {"pad": half - 1, "pad_end": half}
    return {name: value for name, value in found.items() if value}


def _stem(n: NetSpec, data: Top, moving_average_fraction: float) -> Top:
    return _unit(n, "conv1", data, STEM, Normalisation("bn", 0, moving_average_fraction), kernel_size=3, stride=2)


def _pooled(n: NetSpec, x: Top, normalise: Normalisation) -> Top:
    """The blocks and the last convolution, averaged: N×1280×1×1."""
    for block in blocks():
        y = _unit(n, f"{block.name}_expand", x, block.wide, normalise) if block.expands else x
        depthwise = {"kernel_size": block.kernel_size, "stride": block.stride, "group": block.wide}
        y = _unit(n, f"{block.name}_depthwise", y, block.wide, normalise, **depthwise)
        y = _unit(n, f"{block.name}_project", y, block.filters, normalise, linear=True)
        if block.adds_input:
            n[block.name] = y = L.Eltwise(x, y)
        x = y
    return global_average(n, POOLED, _unit(n, "conv2", x, HEAD, normalise))


def _unit(
    n: NetSpec,
    name: str,
    x: Top,
    filters: int,
    normalise: Normalisation,
    *,
    kernel_size: int = 1,
    stride: int = 1,
    group: int = 1,
    linear: bool = False,
) -> Top:
    """A convolution, its normalisation and, unless it is ``linear``, ReLU6."""
    geometry = {name: value for name, value in {"stride": stride, "group": group}.items() if value > 1}
    geometry |= pads(kernel_size, stride)
    x = convolution(n, name, x, filters, kernel_size, bias=normalise.leaves_bias, filler=MSRA, **geometry)
    x = replace(normalise, eps=EPS, in_place=not linear)(n, name, x)
    if not linear:
        n[f"{name}_relu6"] = x = L.Clip(x, min=0, max=6, in_place=True)
    return x
