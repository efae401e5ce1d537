"""Nets of inverted residual blocks: EfficientNet-Lite0 and MobileNetV2 differ in their stages, padding and names.

A block is a 1×1 convolution that widens, a depthwise one (a group for each channel) and a 1×1 convolution that narrows,
each with BN, the first two with ReLU6; its input is added if the shape is the same. mDA replaces every BN but conv1's,
after which the branch begins, as in ResNets.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from string import ascii_lowercase

from latent_domains.networks.blocks import (
    MSRA,
    Experiment,
    L,
    NetSpec,
    Normalisation,
    Top,
    TorchGraph,
    convolution,
    global_average,
)
from latent_domains.networks.network import Unit

STEM, HEAD = 32, 1280
"""Filters of the first convolution and of the last, whose averages are the features."""

POOLED = "pool"
"""The blob of the features, N×1280×1×1."""

Pads = tuple[int, int]
"""Pixels that a convolution pads above and left, and below and right."""


@dataclass(frozen=True)
class Block:
    """An inverted residual block, the ``place``-th; ``channels`` enter, ``filters`` leave; ``wide`` are between."""

    place: int
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


@dataclass(frozen=True)
class InvertedResiduals:
    """A net of such blocks.

    ``stages``: how many blocks, kernel size, stride of the first block, how many times wider inside, filters.
    ``torch_names`` gives PyTorch's names of a convolution and its BN: of "stem", "head" and, for a block, "expand",
    "depthwise" and "project". ``pads`` are those of a kernel size and a stride; ``eps`` is added to variances.
    """

    stages: tuple[tuple[int, int, int, int, int], ...]
    eps: float
    pads: Callable[[int, int], Pads]
    torch_names: Callable[[str, Block | None], tuple[str, str]]

    def blocks(self) -> Iterator[Block]:
        """Yield every block, in order: 1a, 2a, 2b, …"""
        channels, place = STEM, 0
        for stage, (count, kernel_size, stride, wider, filters) in enumerate(self.stages, 1):
            for letter in ascii_lowercase[:count]:
                name, step = f"block{stage}{letter}", stride if letter == "a" else 1
                yield Block(place, name, channels, wider * channels, filters, kernel_size, step)
                channels, place = filters, place + 1

    def stem(self, n: NetSpec, data: Top, experiment: Experiment) -> Top:
        """Add conv1 with the plain BN that it keeps. data: N×3×H×W; returns N×32×H/2×W/2."""
        normalise = Normalisation("bn", 0, experiment.recipe.moving_average_fraction)
        return self._unit(n, "conv1", data, STEM, normalise, kernel_size=3, stride=2)

    def features(self, n: NetSpec, conv1: Top, normalise: Normalisation, experiment: Experiment) -> Top:
        """Return the blocks and the last convolution, averaged: POOLED."""
        x = conv1
        for block in self.blocks():
            y = self._unit(n, f"{block.name}_expand", x, block.wide, normalise) if block.expands else x
            depthwise = {"kernel_size": block.kernel_size, "stride": block.stride, "group": block.wide}
            y = self._unit(n, f"{block.name}_depthwise", y, block.wide, normalise, **depthwise)
            y = self._unit(n, f"{block.name}_project", y, block.filters, normalise, linear=True)
            if block.adds_input:
                n[block.name] = y = L.Eltwise(x, y)
            x = y
        return global_average(n, POOLED, self._unit(n, "conv2", x, HEAD, normalise))

    def units(self) -> Iterator[Unit]:
        """Yield every convolution with its BN, in the order of the net."""

        def unit(part: str, block: Block | None, name: str, filters: int, channels: int, size: int = 1) -> Unit:
            return Unit(*self.torch_names(part, block), name, f"{name}_{{layer}}", (filters, channels, size, size))

        yield unit("stem", None, "conv1", STEM, 3, 3)
        for block in self.blocks():
            if block.expands:
                yield unit("expand", block, f"{block.name}_expand", block.wide, block.channels)
            yield unit("depthwise", block, f"{block.name}_depthwise", block.wide, 1, block.kernel_size)
            yield unit("project", block, f"{block.name}_project", block.filters, block.wide)
        yield unit("head", None, "conv2", HEAD, block.filters)

    def reference(self, graph: TorchGraph) -> str:
        """Return the net as PyTorch computes it."""
        x = graph.relu6(graph.unit("data", *self.torch_names("stem", None), 2, self.pads(3, 2)), "conv1_bn")
        for block in self.blocks():
            depthwise, project = (self.torch_names(part, block) for part in ("depthwise", "project"))
            y = graph.relu6(graph.unit(x, *self.torch_names("expand", block))) if block.expands else x
            size, _ = graph.values[f"{depthwise[0]}.weight"].shape[2:]
            y = graph.unit(y, *depthwise, block.stride, self.pads(size, block.stride), group=block.wide)
            output = None if block.adds_input else f"{block.name}_project_scale"
            y = graph.unit(graph.relu6(y), *project, output=output)
            x = graph.node("Add", [x, y], block.name) if block.adds_input else y
        return graph.relu6(graph.unit(x, *self.torch_names("head", None)))

    def _unit(
        self,
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
        """Return a convolution, its normalisation and, unless it is ``linear``, ReLU6."""
        before, after = self.pads(kernel_size, stride)
        geometry = {name: value for name, value in (("stride", stride), ("group", group)) if value > 1}
        geometry |= {"pad": before} if before else {}
        geometry |= {"pad_end": after} if after != before else {}
        x = convolution(n, name, x, filters, kernel_size, bias=normalise.leaves_bias, filler=MSRA, **geometry)
        x = replace(normalise, eps=self.eps, in_place=not linear)(n, name, x)
        if not linear:
            n[f"{name}_relu6"] = x = L.Clip(x, min=0, max=6, in_place=True)
        return x
