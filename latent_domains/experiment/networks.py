"""The list of networks. All that is known of one is in its file in :mod:`latent_domains.networks`."""

from latent_domains.networks.alexnet import ALEXNET
from latent_domains.networks.alexnet_fc7 import ALEXNET_FC7
from latent_domains.networks.any_features import ANY_FEATURES as _OF_ANY_BACKBONE
from latent_domains.networks.lite0 import LITE0
from latent_domains.networks.mnist import MNIST
from latent_domains.networks.mobilenet_v2 import MOBILENET_V2
from latent_domains.networks.resnet import RESNET18, RESNET34, RESNET50

NETWORKS = {
    network.name: network
    for network in (
        MNIST,
        ALEXNET,
        ALEXNET_FC7,
        _OF_ANY_BACKBONE,
        RESNET18,
        RESNET34,
        RESNET50,
        LITE0,
        MOBILENET_V2,
    )
}
"""By name."""

ANY_FEATURES = _OF_ANY_BACKBONE.name
"""The network that takes stored features of any backbone, of any number."""

BACKBONES = {
    name: network.weights[0].file
    for name, network in NETWORKS.items()
    if network.backbone and network.weights[0].file.package
}
"""Weights of the backbones that Python packages bring, by network. Nets on their features are exported with them."""
