"""Where the data sets and ImageNet's weights live, and the hashes of what must arrive.

A mirror folder holds the same files: ``mnist/*.gz``, ``usps/zip.*.gz``, ``bsds500/*.jpg``, ``weights/*``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class GzipFile:
    """A gzipped file of a data set."""

    path: str
    """Its place under the mirror or download folder."""
    sha256: str
    """Of the unpacked contents: copies of MNIST in circulation are packed differently."""
    urls: tuple[str, ...]
    """Tried in this order."""


def _mnist(name: str, sha256: str) -> GzipFile:
    bases = (
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
        "http://yann.lecun.com/exdb/mnist/",
    )
    return GzipFile(f"mnist/{name}", sha256, tuple(base + name for base in bases))


def _usps(name: str, sha256: str) -> GzipFile:
    bases = (
        "https://hastie.su.domains/ElemStatLearn/datasets/",
        "https://web.stanford.edu/~hastie/ElemStatLearn/datasets/",
    )
    return GzipFile(f"usps/{name}", sha256, tuple(base + name for base in bases))


MNIST_TRAIN = (
    _mnist("train-images-idx3-ubyte.gz", "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"),
    _mnist("train-labels-idx1-ubyte.gz", "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"),
)
MNIST_TEST = (
    _mnist("t10k-images-idx3-ubyte.gz", "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"),
    _mnist("t10k-labels-idx1-ubyte.gz", "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"),
)
USPS_TRAIN = _usps("zip.train.gz", "abc9f5c75b997cabe66b5d01727d5a681c69298e1641a8d37b55433a52129dc0")
USPS_TEST = _usps("zip.test.gz", "6bde17b4f1cd68e0630cd2751d6495b5795d9165ab2dc4a0be8b7002b732f4cc")

BSDS500_URLS = (
    "https://www2.eecs.berkeley.edu/Research/Projects/CS/vision/grouping/BSR/BSR_bsds500.tgz",
    "http://www.eecs.berkeley.edu/Research/Projects/CS/vision/grouping/BSR/BSR_bsds500.tgz",
)
BSDS500_SUMS = Path(__file__).with_name("bsds500.sha256")
"""One line ``sha256  name`` for each of the 500 photographs, as sha256sum(1) writes and checks them."""


@dataclass(frozen=True)
class WeightsFile:
    """Weights that others trained on ImageNet."""

    name: str
    """Of the file, as its server calls it."""
    title: str
    hashes: Mapping[str, str]
    """By algorithm; the file must have all of them."""
    urls: tuple[str, ...]
    """Tried in this order."""


def _torchvision(title: str, name: str, sha256: str) -> WeightsFile:
    """The file's name carries the first eight digits of its hash."""
    return WeightsFile(
        name, f"torchvision's {title}", {"sha256": sha256}, (f"https://download.pytorch.org/models/{name}",)
    )


WEIGHTS = {
    # BVLC publishes the sha1 (models/bvlc_alexnet/readme.md); the sha256 is OpenVINO's open_model_zoo's, for the same
    # URL. NVIDIA's and MXNet's copies have that sha1.
    "alexnet": WeightsFile(
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
    "resnet18": _torchvision(
        "ResNet18", "resnet18-f37072fd.pth", "f37072fd47e89c5e827621c5baffa7500819f7896bbacec160b1a16c560e07ec"
    ),
    "resnet34": _torchvision(
        "ResNet34", "resnet34-b627a593.pth", "b627a593bcbe140c234610266fe4f8ae95ea42fc881d091c9b6052e6b1d0590f"
    ),
}
"""By the name of the net."""
