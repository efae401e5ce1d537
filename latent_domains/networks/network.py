"""The definition of a network: each file of this package makes one object of this type."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from numpy.typing import NDArray

from latent_domains.data.preprocessing import Preprocessing
from latent_domains.data.published_file import PublishedFile
from latent_domains.networks.blocks import (
    GAUSSIAN,
    DomainClassifier,
    Experiment,
    NetSpec,
    Normalisation,
    Top,
    TorchGraph,
    inner_product,
)

EPS = 1e-5
"""Added to variances, by PyTorch and by Caffe."""

STATISTICS = ("weight", "bias", "running_mean", "running_var")
"""Tensors of a BN that count; num_batches_tracked does not."""


GEOMETRIES = ("torch", "caffe")
"""Of a ResNet: Torch's own, or that of the widespread Caffe model (:mod:`latent_domains.networks.resnet`)."""


class CheckpointError(Exception):
    """An error in a checkpoint. The caller, who knows the file's name, adds it before the message."""


class Stem(Protocol):
    """The layers that the branches and the features share."""

    def __call__(self, n: NetSpec, data: Top, experiment: Experiment) -> Top: ...


class Branch(Protocol):
    """The layers that predict domains; their names begin with a prefix."""

    def __call__(self, n: NetSpec, stem: Top, experiment: Experiment, prefix: str) -> Top: ...


class Part(Protocol):
    """From the stem to the features, or from these to class scores (N×classes); normalised."""

    def __call__(self, n: NetSpec, x: Top, normalise: Normalisation, experiment: Experiment) -> Top: ...


def linear_classifier(n: NetSpec, features: Top, normalise: Normalisation, experiment: Experiment) -> Top:
    """Return the classifier of the paper's ResNet: not normalised, with ten times the learning rate of other layers."""
    return inner_product(n, "classifier", features, experiment.data.classes, bias=True, filler=GAUSSIAN, lr_mult=10)


@dataclass(frozen=True)
class Standardisation:
    """The pixels that a checkpoint's net reads: (p/255 - mean)/std, each for R, G, B, and the order of its channels."""

    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    channels: Literal["RGB", "BGR"] = "RGB"

    @property
    def caffe_mean(self) -> tuple[float, ...]:
        """The mean for Caffe, B, G, R, from 0 to 255, with which conv1 pads as PyTorch does."""
        return tuple(255 * value for value in reversed(self.mean))


IMAGENET = Standardisation((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
"""The standardisation of torchvision and fb.resnet.torch."""


def converted_name(name: str, num_domains: int) -> str:
    """Return the name of a converted caffemodel for nets of this many domains; 0: without mDA."""
    return f"{name}_mda{num_domains}.caffemodel" if num_domains else f"{name}.caffemodel"


@dataclass(frozen=True)
class Pretrained:
    """Published weights of a network.

    ``name`` begins the names of the caffemodels; ``network`` is the network of the nets that begin from them.
    ``converted`` means that ``file`` is not a caffemodel itself. ``standardisation`` is the file's, if it is not the
    network's usual one; ``note`` describes, for users, what conversion changes.
    """

    name: str
    network: str
    file: PublishedFile
    converted: bool = True
    standardisation: Standardisation | None = None
    note: str | None = None

    @property
    def title(self) -> str:
        """Whose weights these are."""
        return self.file.title

    def caffemodel(self, num_domains: int) -> str:
        """Return the name of the caffemodel that a net of this many domains begins from: mDA has statistics for each.

        0 is a net without mDA.
        """
        return converted_name(self.name, num_domains) if self.converted else self.file.name

    def made(self, caffemodel: str) -> bool:
        """Say whether a caffemodel of this name is one of these weights."""
        if not self.converted:
            return caffemodel == self.file.name
        return re.fullmatch(rf"{self.name}(_mda\d+)?\.caffemodel", caffemodel) is not None


def torchvision(name: str, title: str, sha256: str) -> Pretrained:
    """Return torchvision's first weights of a network: their file's name contains eight digits of its hash."""
    file = f"{name}-{sha256[:8]}.pth"
    homes = ("https://download.pytorch.org/models/", "https://s3.amazonaws.com/pytorch/models/")
    urls = tuple(home + file for home in homes)
    return Pretrained(name, name, PublishedFile(file, f"torchvision's {title}", {"sha256": sha256}, urls))


@dataclass(frozen=True)
class Unit:
    """A convolution and its BN: their names in PyTorch and in Caffe, and the weights' shape."""

    convolution: str
    bn: str
    name: str
    """Of Caffe's convolution."""
    norm: str
    """Of the layers that normalise, as "{layer}2a_branch2a": layer is bn, mda or scale."""
    shape: tuple[int, int, int, int]


@dataclass(frozen=True)
class TorchLayout:
    """A network in PyTorch: its tensors by name, and what it computes from them."""

    mark: str
    """A tensor that no other module is likely to have."""
    units: tuple[Unit, ...]
    """In the order of the net; the first is conv1."""
    classifier: str
    """PyTorch's name for it."""
    features: int
    """Inputs of the classifier."""
    reference: Callable[[TorchGraph], str]
    """Builds the net up to what is averaged, to compare Caffe's with it. The outputs have Caffe's names: those of the
    stem and of every block."""
    pooled: str
    """Caffe's blob of the features."""
    eps: float = EPS
    """Added to variances."""
    standardisation: Standardisation = IMAGENET
    variant: Callable[[Mapping[str, NDArray]], "Network"] | None = None
    """The network of the same kind that has these tensors, if there are several. Raises CheckpointError for none."""

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of each tensor but the classifier's."""
        found: dict[str, tuple[int, ...]] = {}
        for unit in self.units:
            found[f"{unit.convolution}.weight"] = unit.shape
            found |= {f"{unit.bn}.{statistic}": unit.shape[:1] for statistic in STATISTICS}
        return found


@dataclass(frozen=True)
class Backbone:
    """Blocks of a network that makes features of pictures.

    Statistics of the channels of ``early`` come with the features: they distinguish domains. The means of ``middle`` do
    so best, after the effect of the class is removed (results/discovery/README.md).
    """

    early: tuple[str, ...]
    middle: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Network:
    """A network: ``stem``, ``branch``, ``features`` and ``classifier`` are its layers, the rest is facts about it.

    ``domain_classifier`` is the last layer of a branch; it sees only the rows whose domains it predicts.
    ``branch_sees_all``: whether the rows of sources and targets go through the branch together, so that BN layers in it
    use the whole batch's statistics.

    ``images`` is the name of a dataset with images of the right size; ``any_size`` says whether other sizes work.
    ``pixels`` says how images become its input (None: as that dataset's). Own images are trained by the recipe of the
    dataset ``recipe`` (None: not at all). The first of the ``geometries`` is the default; only "caffe" has the layer
    ``caffe_only``. ``plain`` says whether it learns without normalisation; ``conv1_bias`` whether conv1 may have a
    bias. ``megabytes`` is the memory that a run at the paper's batch size needs, with a margin. Its committed nets are
    in the ``folder`` of prototxt/.

    ``weights`` are ImageNet's, the preferred ones first; without any, training begins at random. ``torch`` describes
    its checkpoints. ``backbone`` is there if it makes features of pictures, on which other nets are trained.
    """

    name: str
    title: str
    stem: Stem
    branch: Branch
    features: Part
    images: str
    megabytes: int
    classifier: Part = linear_classifier
    domain_classifier: DomainClassifier = field(default_factory=DomainClassifier)
    branch_sees_all: bool = False
    pixels: Preprocessing | None = None
    any_size: bool = False
    recipe: str | None = None
    geometries: tuple[str, ...] = ("caffe",)
    caffe_only: str | None = None
    plain: bool = True
    conv1_bias: bool = False
    folder: str | None = None
    weights: tuple[Pretrained, ...] = ()
    torch: TorchLayout | None = None
    backbone: Backbone | None = None

    def scores(self, n: NetSpec, stem: Top, normalise: Normalisation, experiment: Experiment) -> Top:
        """Return all layers after the stem: class scores (N×classes)."""
        return self.classifier(n, self.features(n, stem, normalise, experiment), normalise, experiment)
