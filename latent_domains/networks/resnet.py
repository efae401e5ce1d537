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

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from string import ascii_lowercase
from typing import Any

from numpy.typing import NDArray

from latent_domains.common.wording import by
from latent_domains.data.published_file import PublishedFile
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
    max_pool,
    normalisation,
    relu,
)
from latent_domains.networks.network import (
    GEOMETRIES,
    Backbone,
    CheckpointError,
    Network,
    Pretrained,
    Standardisation,
    TorchLayout,
    Unit,
    torchvision,
)

POOLED = "pool5"
"""The blob of the features, N×512×1×1 (ResNet50: N×2048×1×1)."""

MOST_BLOCKS = 100
"""Of a stage: far beyond those of the deepest nets."""

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
    """Return the depth with this many blocks of two 3×3 convolutions in each stage."""
    return Depth(blocks, kernels=(3, 3), expansion=1)


def bottlenecks(*blocks: int) -> Depth:
    """Return the depth with this many bottlenecks in each stage."""
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
    """Add conv1 with the plain BN that it keeps. data: N×3×224×224; returns N×64×112×112."""
    normalise = Normalisation("bn", 0, experiment.recipe.moving_average_fraction)
    x = convolution(n, "conv1", data, 64, 7, bias=False, filler=MSRA, stride=2, pad=3)
    return relu(n, "conv1_relu", normalise(n, "conv1", x, pattern=_CONV1))


def branch(n: NetSpec, conv1: Top, experiment: Experiment, prefix: str) -> Top:
    """Return a domain prediction branch: one residual block of ResNet18, 64 filters, stride 2; features N×64×1×1.

    The block has its BN layers unless ``branch_norm`` is none.
    """
    normalise = normalisation(experiment, "layers", "centred", "logits")
    x = _block(n, "2a", conv1, DEPTHS[18], 64, 2, normalise, projected=True, prefix=f"{prefix}_")
    return global_average(n, f"{prefix}_pool", x)


def features(n: NetSpec, conv1: Top, normalise: Normalisation, experiment: Experiment, depth: Depth) -> Top:
    """Return the residual stages and the features they end in, POOLED."""
    torch = experiment.net.geometry == "torch"
    x = max_pool(n, "pool1", conv1, 3, 2, floor=torch, **({"pad": 1} if torch else {}))
    widths = dict(STAGES)
    for stage, place, name in blocks(depth):
        projected = place == 0 and (stage > 2 or depth.expansion > 1 or not torch)
        stride = 2 if place == 0 and stage > 2 else 1
        x = _block(n, name, x, depth, widths[stage], stride, normalise, projected=projected)
    return global_average(n, POOLED, x)


def blocks(depth: Depth) -> Iterator[tuple[int, int, str]]:
    """Yield stage (2 to 5), index in the stage (from 0) and name (2a) of each residual block, in their order.

    In a stage of more blocks than there are letters the names are 4a, 4b1, 4b2, …, as in He et al.'s ResNet152.
    """
    for (stage, _), count in zip(STAGES, depth.blocks, strict=True):
        lettered = count <= len(ascii_lowercase)
        for place in range(count):
            yield stage, place, f"{stage}{ascii_lowercase[place] if lettered or not place else f'b{place}'}"


def normalisation_name(layer: str, path: str) -> str:
    """Return the name of a normalising layer: ``layer`` is bn, mda or scale; ``path`` is conv1, or as 2a_branch2a."""
    return (_CONV1 if path == "conv1" else _BLOCK).format(layer=layer, name=path)


def convolution_name(path: str) -> str:
    """Return the name of a convolution: ``path`` is conv1, or as 2a_branch2a."""
    return path if path == "conv1" else f"res{path}"


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
    """Return a residual block, its stride in the first 3×3; if ``projected`` its shortcut is a normalised 1×1."""

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


def units(depth: Depth) -> Iterator[Unit]:
    """Yield every convolution with its BN, in the order of the net. A block's shortcut comes last, if it is projected.

    The names are those of torchvision's state dicts, which timm's plain nets share.
    """

    def unit(convolution: str, bn: str, path: str, filters: int, channels: int, size: int) -> Unit:
        name, norm = convolution_name(path), normalisation_name("{layer}", path)
        return Unit(convolution, bn, name, norm, (filters, channels, size, size))

    yield unit("conv1", "bn1", "conv1", 64, 3, 7)
    widths, entering = dict(STAGES), 64
    for stage, place, name in blocks(depth):
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


def reference(graph: TorchGraph, depth: Depth) -> str:
    """Return a ResNet as PyTorch computes it."""
    x = graph.relu(graph.unit("data", "conv1", "bn1", 2, (3, 3)), "scale_conv1")
    x = graph.node("MaxPool", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for stage, place, name in blocks(depth):
        block = f"layer{stage - 1}.{place}"
        stride = 2 if stage > 2 and place == 0 else 1
        if f"{block}.conv3.weight" in graph.values:  # a bottleneck: its second convolution has the stride
            y = graph.relu(graph.unit(x, f"{block}.conv1", f"{block}.bn1"))
            y = graph.relu(graph.unit(y, f"{block}.conv2", f"{block}.bn2", stride, (1, 1)))
            y = graph.unit(y, f"{block}.conv3", f"{block}.bn3")
        else:
            y = graph.relu(graph.unit(x, f"{block}.conv1", f"{block}.bn1", stride, (1, 1)))
            y = graph.unit(y, f"{block}.conv2", f"{block}.bn2", 1, (1, 1))
        projected = f"{block}.downsample.0.weight" in graph.values
        shortcut = graph.unit(x, f"{block}.downsample.0", f"{block}.downsample.1", stride) if projected else x
        x = graph.relu(graph.node("Add", [y, shortcut]), f"res{name}")
    return x


def resnet_of(depth: Depth | int, **facts: Any) -> Network:
    """Return the ResNet of a depth, or of this many layers if it is one of DEPTHS."""
    depth = DEPTHS[depth] if isinstance(depth, int) else depth
    counts = " ".join(map(str, depth.blocks))
    layers = next((layers for layers, known in DEPTHS.items() if known == depth), None)
    title = f"ResNet{layers}" if layers else f"ResNet of {counts} {'blocks' if depth.expansion == 1 else 'bottlenecks'}"
    of_torch = TorchLayout(
        "layer1.0.conv1.weight",
        tuple(units(depth)),
        "fc",
        STAGES[-1][1] * depth.expansion,
        partial(reference, depth=depth),
        POOLED,
        variant=find_resnet,
    )
    usual = {"images": "pacs", "any_size": True, "recipe": "pacs", "plain": False, "geometries": ("torch",)}
    return Network(
        f"resnet{layers or '_' + counts.replace(' ', '_')}",
        title,
        stem,
        branch,
        partial(features, depth=depth),
        branch_sees_all=True,  # the branch has BN layers of its own, as in the authors' net
        torch=of_torch,
        **{"megabytes": 0, **usual, **facts},
    )


def find_resnet(tensors: Mapping[str, NDArray]) -> Network:
    """Return the ResNet with these tensors, by the numbers of blocks and of convolutions in one.

    Raises CheckpointError if there is none.
    """
    if (shape := tensors["conv1.weight"].shape) != (64, 3, 7, 7):  # elsewhere the blocks are often the same
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


RESNET18_CNTK = Pretrained(
    "resnet18_cntk",
    "resnet18",
    PublishedFile(
        "resnet18_cntk/ResNet18.onnx",
        "CNTK's ResNet18 less its ninth block",
        {"sha256": "e2552f19db2dfdb01b3669537b6a0f1b44da38d18279535492ed5dfc2ef1ff8f"},
        (),
        home="ResNet18.onnx of the NuGet package Microsoft.ML.DnnImageFeaturizer.ResNet18 0.23.1 (MIT), in its folder "
        "tools/DnnImageModels",
    ),
    standardisation=Standardisation(
        tuple(value / 255 for value in (123.15163, 115.902885, 103.06262)), (1 / 255,) * 3, "BGR"
    ),
    note="trained on pixels less a mean image; less its mean in each channel, features are 3 to 5 % off",
)
"""A ResNet of nine blocks, trained in CNTK on pixels B, G, R of 0 to 255 minus a mean image, whose mean for each
channel is given here. Our nets have eight blocks: after the ninth only the average follows.
"""

_SHA256 = {
    18: "f37072fd47e89c5e827621c5baffa7500819f7896bbacec160b1a16c560e07ec",
    34: "b627a593bcbe140c234610266fe4f8ae95ea42fc881d091c9b6052e6b1d0590f",
    50: "0676ba61b6795bbe1773cffd859882e5e297624d384b6993f7c9e683e722fb8a",
}
"""Of torchvision's weights, by the layers of the net."""

_TORCHVISION = {layers: torchvision(f"resnet{layers}", f"ResNet{layers}", sha256) for layers, sha256 in _SHA256.items()}

RESNET18 = resnet_of(
    18,
    megabytes=8000,
    geometries=GEOMETRIES,
    caffe_only="res2a_branch1",
    folder="resnet18",
    weights=(_TORCHVISION[18], RESNET18_CNTK),
    backbone=Backbone(("res4b",), ("res4b",)),
)
RESNET34 = resnet_of(34, megabytes=11000, weights=(_TORCHVISION[34],))
RESNET50 = resnet_of(50, megabytes=26000, weights=(_TORCHVISION[50],))
