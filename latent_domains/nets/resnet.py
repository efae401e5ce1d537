"""ResNets (He et al.) with the paper's additions (section 4.1): mDA in place of every BN but conv1's.

Layers have the names that Caffe's users know: conv1, bn_conv1, scale_conv1, res2a_branch2a, scale2a_branch2a, …; an mDA
layer is called mda2a_branch2a where the original net has bn2a_branch2a.

Blocks have two 3×3 convolutions, as in ResNet18 and ResNet34, or are the bottlenecks of ResNet50. They are Torch's: a
block that halves the resolution does so in its 3×3 convolution. (He et al.'s own does in the 1×1 convolution before it;
its weights are of no use here.)

Two geometries: "torch" is that of Torch's ResNets (the first pooling pads by 1 and rounds down, res2a of ResNet18 adds
its input as it is), exact for weights converted from Torch; "caffe", of ResNet18 alone, is that of the Caffe model the
authors started from (no padding, rounded up, a projection in res2a).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from string import ascii_lowercase

from caffe import layers as L
from caffe import params as P
from caffe.net_spec import NetSpec, Top

from latent_domains.experiment.experiment import Experiment
from latent_domains.experiment.networks import NETWORKS
from latent_domains.nets.architecture import Architecture
from latent_domains.nets.blocks import (
    GAUSSIAN,
    MSRA,
    Normalisation,
    convolution,
    global_average,
    inner_product,
    max_pool,
    relu,
)
from latent_domains.nets.branch import normalisation

SHAPE = (3, 224, 224)
"""Channels, height, width of the input that the net was designed for."""

STAGES = ((2, 64), (3, 128), (4, 256), (5, 512))
"""Number of each stage, as in res2a, and its filters. All but the first halve the resolution."""


@dataclass(frozen=True)
class Depth:
    """The differences between ResNets of different depths.

    ``blocks`` counts those of each stage, ``kernels`` are the sizes of the convolutions in one, ``expansion`` is how
    many times the stage's filters the last of them has.
    """

    blocks: tuple[int, ...]
    kernels: tuple[int, ...]
    expansion: int


def basic_blocks(*blocks: int) -> Depth:
    """So many blocks of two 3×3 convolutions in each stage."""
    return Depth(blocks, kernels=(3, 3), expansion=1)


def bottlenecks(*blocks: int) -> Depth:
    """So many bottlenecks in each stage."""
    return Depth(blocks, kernels=(1, 3, 1), expansion=4)


DEPTHS = {
    18: basic_blocks(2, 2, 2, 2),
    34: basic_blocks(3, 4, 6, 3),
    50: bottlenecks(3, 4, 6, 3),
    101: bottlenecks(3, 4, 23, 3),
    152: bottlenecks(3, 8, 36, 3),
}
"""By the layers of the net."""

_CONV1 = "{layer}_{name}"
"""Names like bn_conv1."""

_BLOCK = "{layer}{name}"
"""Names like bn2a_branch2a."""


def stem(n: NetSpec, data: Top, experiment: Experiment) -> Top:
    """conv1 with the plain BN that it keeps. data: N×3×224×224; returns N×64×112×112."""
    return _stem(n, data, Normalisation("bn", 0, experiment.recipe.moving_average_fraction))


def branch(n: NetSpec, conv1: Top, experiment: Experiment, prefix: str) -> Top:
    """A domain prediction branch: one residual block of ResNet18, 64 filters, stride 2. Returns features N×64×1×1.

    The block has its BN layers unless ``branch_norm`` is none.
    """
    normalise = normalisation(experiment, "layers", "centred", "logits")
    x = _block(n, "2a", conv1, DEPTHS[18], 64, 2, normalise, projected=True, prefix=f"{prefix}_")
    return global_average(n, f"{prefix}_pool", x)


def trunk(n: NetSpec, conv1: Top, normalise: Normalisation, experiment: Experiment) -> Top:
    """The residual stages and the classifier. Returns class scores N×classes."""
    depth = DEPTHS[NETWORKS[experiment.net.network].layers]
    x = _stages(n, conv1, normalise, depth, torch=experiment.net.geometry == "torch")
    return inner_product(n, "classifier", x, experiment.data.classes, bias=True, filler=GAUSSIAN, lr_mult=10)


RESNET = Architecture(stem, branch, trunk, branch_sees_all=True)
"""The branch has BN layers of its own: their statistics are the whole batch's, as in the authors' net."""


def converted_net(depth: Depth, normalise: Normalisation, classes: int | None) -> NetSpec:
    """A ResNet of any depth as its weights come from Torch: the deploy net of no experiment.

    conv1 keeps a plain BN whatever ``normalise`` is. With ``classes`` it ends in their probabilities, and its head is
    called after their number (fc1000), never like an experiment's classifier; without, in pool5.
    """
    n = NetSpec()
    n.data = L.Input(shape={"dim": [1, *SHAPE]})
    conv1 = _stem(n, n.data, Normalisation("bn", 0, normalise.moving_average_fraction))
    x = _stages(n, conv1, normalise, depth, torch=True)
    if classes is not None:
        n.prob = L.Softmax(inner_product(n, f"fc{classes}", x, classes, bias=True, filler=GAUSSIAN))
    return n


def blocks(depth: Depth) -> Iterator[tuple[int, int, str]]:
    """Stage (2 to 5), place in the stage (from 0) and name (2a) of each residual block, in their order.

    In a stage of more blocks than there are letters the names are 4a, 4b1, 4b2, …, as in He et al.'s ResNet152.
    """
    for (stage, _), count in zip(STAGES, depth.blocks, strict=True):
        lettered = count <= len(ascii_lowercase)
        for place in range(count):
            yield stage, place, f"{stage}{ascii_lowercase[place] if lettered or not place else f'b{place}'}"


def normalisation_name(layer: str, path: str) -> str:
    """Name of a layer that normalises: ``layer`` is bn, mda or scale, ``path`` conv1 or the like of 2a_branch2a."""
    return (_CONV1 if path == "conv1" else _BLOCK).format(layer=layer, name=path)


def convolution_name(path: str) -> str:
    """Name of a convolution: ``path`` is conv1 or the like of 2a_branch2a."""
    return path if path == "conv1" else f"res{path}"


def _stem(n: NetSpec, data: Top, normalise: Normalisation) -> Top:
    x = convolution(n, "conv1", data, 64, 7, bias=False, filler=MSRA, stride=2, pad=3)
    return relu(n, "conv1_relu", normalise(n, "conv1", x, pattern=_CONV1))


def _stages(n: NetSpec, conv1: Top, normalise: Normalisation, depth: Depth, *, torch: bool) -> Top:
    """The residual stages and the features they end in, N×512×1×1 (ResNet50: N×2048×1×1)."""
    padding = {"pad": 1, "round_mode": P.Pooling.FLOOR} if torch else {}
    x = max_pool(n, "pool1", conv1, 3, 2, **padding)
    widths = dict(STAGES)
    for stage, place, name in blocks(depth):
        projected = place == 0 and (stage > 2 or depth.expansion > 1 or not torch)
        stride = 2 if place == 0 and stage > 2 else 1
        x = _block(n, name, x, depth, widths[stage], stride, normalise, projected=projected)
    return global_average(n, "pool5", x)


def _block(
    n: NetSpec,
    name: str,
    x: Top,
    depth: Depth,
    filters: int,
    stride: int,
    normalise: Normalisation,
    *,
    projected: bool,
    prefix: str = "",
) -> Top:
    """A residual block, its stride in the first 3×3; ``projected``: its shortcut is a normalised 1×1 convolution."""

    def normalised(part: str, x: Top, num_output: int, kernel_size: int, stride: int) -> Top:
        path = f"{name}_{part}"
        geometry = {"stride": stride} if stride > 1 else {}
        if kernel_size > 1:
            geometry["pad"] = kernel_size // 2
        x = convolution(
            n, f"{prefix}res{path}", x, num_output, kernel_size, bias=normalise.leaves_bias, filler=MSRA, **geometry
        )
        return normalise(n, path, x, pattern=prefix + _BLOCK)

    shortcut = normalised("branch1", x, filters * depth.expansion, 1, stride) if projected else x
    y, strided, last = x, depth.kernels.index(3), len(depth.kernels) - 1
    for place, kernel_size in enumerate(depth.kernels):
        part, wide = f"branch2{ascii_lowercase[place]}", depth.expansion if place == last else 1
        y = normalised(part, y, filters * wide, kernel_size, stride if place == strided else 1)
        if place < last:
            y = relu(n, f"{prefix}res{name}_{part}_relu", y)
    n[f"{prefix}res{name}"] = L.Eltwise(shortcut, y)
    return relu(n, f"{prefix}res{name}_relu", n[f"{prefix}res{name}"])
