"""EfficientNet-Lite0 (Tan and Le's EfficientNet-B0 without squeeze-and-excitation, ReLU6 for swish): a backbone.

An inverted residual block is a 1×1 convolution that widens, a depthwise one (a group for each channel) and a 1×1
convolution that narrows, each with BN, the first two with ReLU6; its input is added where the shape is the same.

A convolution of stride 2 is padded as TensorFlow's "same" does, one pixel more below and right than above and left (for
even sizes, as all are here). Caffe pads all sides alike: kernels have a row and a column of zeros more, above and left,
which take the pixel that is too much.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from string import ascii_lowercase

from caffe import layers as L
from caffe.net_spec import NetSpec, Top

from latent_domains.data.preprocessing import Preprocessing
from latent_domains.nets.blocks import GAUSSIAN, MSRA, Normalisation, convolution, global_average, inner_product

PREPROCESSING = Preprocessing(stored_shape=(3, 256, 256), crop=224, mean=(127.0, 127.0, 127.0), scale=1.0)
"""What the converted net takes: the division by 128 is in its first convolution."""

STEM, HEAD = 32, 1280
"""Filters of the first convolution and of the last, whose averages are the features."""

POOLED = "pool"
"""The blob of the features, N×1280×1×1."""

EARLY = ("block1a_project", "block2b")
"""What the first two stages end in, N×16×112×112 and N×24×56×56: their channels' statistics tell domains apart."""


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


def converted_net(normalise: Normalisation, classes: int | None) -> NetSpec:
    """The deploy net; with ``classes`` it ends in their probabilities, without in the features."""
    n = NetSpec()
    n.data = L.Input(shape={"dim": [1, *PREPROCESSING.shape]})

    def unit(
        name: str, x: Top, filters: int, kernel_size: int, stride: int = 1, *, group: int = 1, linear=False
    ) -> Top:
        x = convolution(
            n,
            name,
            x,
            filters,
            kernel_size + stride - 1,
            bias=normalise.leaves_bias,
            filler=MSRA,
            stride=stride,
            pad=kernel_size // 2,
            group=group,
        )
        x = normalise(n, name, x)
        if not linear:
            n[f"{name}_relu6"] = x = L.Clip(x, min=0, max=6, in_place=True)
        return x

    x = unit("conv1", n.data, STEM, 3, 2)
    for block in blocks():
        y = unit(f"{block.name}_expand", x, block.wide, 1) if block.expands else x
        y = unit(f"{block.name}_depthwise", y, block.wide, block.kernel_size, block.stride, group=block.wide)
        y = unit(f"{block.name}_project", y, block.filters, 1, linear=True)
        if block.adds_input:
            n[block.name] = y = L.Eltwise(x, y)
        x = y
    x = global_average(n, POOLED, unit("conv2", x, HEAD, 1))
    if classes is not None:
        n.prob = L.Softmax(inner_product(n, f"fc{classes}", x, classes, bias=True, filler=GAUSSIAN))
    return n
