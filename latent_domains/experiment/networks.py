"""The networks: one entry for each, with all that is known of it outside its layers (:mod:`latent_domains.nets`)."""

from dataclasses import dataclass
from typing import Any

from latent_domains.data.preprocessing import Preprocessing
from latent_domains.experiment import pretrained
from latent_domains.experiment.pretrained import LITE0, Pretrained

GEOMETRIES = ("torch", "caffe")
"""Of a ResNet: Torch's own, or that of the widespread Caffe model (:mod:`latent_domains.nets.resnet`)."""


ANY_FEATURES = "features"
"""The network that takes stored features of any backbone, of any number."""


@dataclass(frozen=True)
class Network:
    """An architecture.

    :mod:`latent_domains.nets.family` has its parts; ``layers`` is the depth, if there are several. ``images`` is
    the name of a dataset with images of the right size; ``any_size`` says whether others will do. ``pixels`` says how
    images become its input (None: as that dataset's). Own images are trained by the recipe of the dataset ``recipe``
    (None: not at all). The first of the ``geometries`` is the default; only "caffe" has the layer ``caffe_only``.
    ``plain`` says whether it learns without normalisation. ``megabytes`` is what a run at the paper's batch size needs,
    with room to spare. Its committed nets are in the ``folder`` of prototxt/.
    """

    name: str
    title: str
    images: str
    megabytes: int
    pixels: Preprocessing | None = None
    any_size: bool = False
    recipe: str | None = None
    geometries: tuple[str, ...] = ("caffe",)
    caffe_only: str | None = None
    plain: bool = True
    layers: int | None = None
    folder: str | None = None

    @property
    def weights(self) -> tuple[Pretrained, ...]:
        """ImageNet's weights that it can begin from, the first choice first; none if it begins at random."""
        return pretrained.of_network(self.name)


def _resnet(layers: int, **fields: Any) -> Network:
    return Network(
        f"resnet{layers}",
        f"ResNet{layers}",
        layers=layers,
        images="pacs",
        any_size=True,
        recipe="pacs",
        plain=False,
        **{"geometries": ("torch",), **fields},
    )


NETWORKS = {
    network.name: network
    for network in (
        Network("mnist", "the MNIST net", images="digits", recipe="digits", megabytes=2000, folder="mnist"),
        Network(
            "alexnet",
            "AlexNet",
            images="office31",
            recipe="pacs",
            megabytes=6000,
            folder="alexnet",
        ),
        Network(
            "alexnet_fc7",
            "AlexNet's fc7 features",
            images="office31_fc7",
            megabytes=1500,
            folder="alexnet",
        ),
        Network(
            ANY_FEATURES,
            "features of a backbone",
            images="pacs_lite0",
            recipe="pacs_lite0",
            megabytes=1500,
        ),
        _resnet(
            18,
            megabytes=8000,
            geometries=GEOMETRIES,
            caffe_only="res2a_branch1",
            folder="resnet18",
        ),
        _resnet(
            34,
            megabytes=11000,
        ),
        _resnet(
            50,
            megabytes=26000,
        ),
        Network(
            "lite0",
            "EfficientNet-Lite0",
            images="pacs",
            # Over 128 as it was trained: with that in conv1, which has BN behind it, its steps would be 128² as large.
            pixels=Preprocessing((3, 256, 256), 224, (127.0, 127.0, 127.0), 1 / 128),
            any_size=True,
            recipe="pacs",
            megabytes=11000,
            plain=False,
            folder="lite0",
        ),
    )
}
"""By name."""

BACKBONES = {"lite0": LITE0}
"""Weights of the backbones, by network: other nets are trained on their features."""
