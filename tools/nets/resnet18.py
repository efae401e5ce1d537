"""ResNet18 (He et al.) with the paper's additions (section 4.1): mDA in place of every BN but conv1's.

Layers have the names that Caffe's users know: conv1, bn_conv1, scale_conv1, res2a_branch2a, scale2a_branch2a, …; an mDA
layer is called mda2a_branch2a where the original net has bn2a_branch2a.

Two geometries: "torch" is that of Torch's ResNet18 (the first pooling pads by 1 and rounds down, res2a adds its input
as it is), exact for weights converted from Torch; "caffe" is that of the Caffe model the authors started from (no
padding, rounded up, a projection in res2a).
"""

from caffe import layers as L
from caffe import params as P
from caffe.net_spec import NetSpec, Top

from tools.experiment import Experiment
from tools.nets.blocks import (
    GAUSSIAN,
    MSRA,
    Normalisation,
    convolution,
    global_average,
    inner_product,
    max_pool,
    relu,
)

FOLDER = "resnet18"

BRANCH_SEES_ALL = True
"""The branch has BN layers of its own: their statistics are the whole batch's, as in the authors' net."""

STAGES = ((2, 64), (3, 128), (4, 256), (5, 512))
"""Number of each stage, as in res2a, and its filters. Each has two blocks; all but the first halve the resolution."""

_CONV1 = "{layer}_{name}"
"""Names like bn_conv1."""

_BLOCK = "{layer}{name}"
"""Names like bn2a_branch2a."""


def stem(n: NetSpec, data: Top, experiment: Experiment) -> Top:
    """conv1 with the plain BN that it keeps. data: N×3×224×224; returns N×64×112×112."""
    x = convolution(n, "conv1", data, 64, 7, bias=False, filler=MSRA, stride=2, pad=3)
    return relu(n, "conv1_relu", _batch_norm(experiment)(n, "conv1", x, pattern=_CONV1))


def branch(n: NetSpec, conv1: Top, experiment: Experiment, k: int, prefix: str) -> Top:
    """A domain prediction branch: one residual block of 64 filters, stride 2, and the domain classifier.

    Returns logits N×k.
    """
    x = _block(n, "2a", conv1, 64, 2, _batch_norm(experiment), projected=True, prefix=f"{prefix}_")
    x = global_average(n, f"{prefix}_pool", x)
    return inner_product(n, f"{prefix}_fc", x, k, bias=True, filler=GAUSSIAN, lr_mult=10)


def trunk(n: NetSpec, conv1: Top, normalise: Normalisation, experiment: Experiment) -> Top:
    """The residual stages and the classifier. Returns class scores N×classes."""
    torch = experiment.geometry == "torch"
    padding = {"pad": 1, "round_mode": P.Pooling.FLOOR} if torch else {}
    x = max_pool(n, "pool1", conv1, 3, 2, **padding)
    for stage, filters in STAGES:
        projected = stage > 2 or not torch
        x = _block(n, f"{stage}a", x, filters, 1 if stage == 2 else 2, normalise, projected=projected)
        x = _block(n, f"{stage}b", x, filters, 1, normalise, projected=False)
    x = global_average(n, "pool5", x)
    return inner_product(n, "classifier", x, experiment.data.classes, bias=True, filler=GAUSSIAN, lr_mult=10)


def _block(
    n: NetSpec, name: str, x: Top, filters: int, stride: int, normalise: Normalisation, *, projected: bool,
    prefix: str = "",
) -> Top:  # fmt: skip
    """A residual block of two 3×3 convolutions; ``projected``: its shortcut is a normalised 1×1 convolution."""

    def normalised(part: str, x: Top, kernel_size: int, **geometry: int) -> Top:
        path = f"{name}_{part}"
        x = convolution(n, f"{prefix}res{path}", x, filters, kernel_size, bias=False, filler=MSRA, **geometry)
        return normalise(n, path, x, pattern=prefix + _BLOCK)

    halved = {"stride": stride} if stride > 1 else {}
    shortcut = normalised("branch1", x, 1, **halved) if projected else x
    y = relu(n, f"{prefix}res{name}_branch2a_relu", normalised("branch2a", x, 3, pad=1, **halved))
    y = normalised("branch2b", y, 3, pad=1)
    n[f"{prefix}res{name}"] = L.Eltwise(shortcut, y)
    return relu(n, f"{prefix}res{name}_relu", n[f"{prefix}res{name}"])


def _batch_norm(experiment: Experiment) -> Normalisation:
    return Normalisation("bn", 0, experiment.data.recipe.moving_average_fraction)
