"""The net that extracts fc7 features: BVLC's AlexNet as it was trained on ImageNet."""

from caffe import NetSpec
from caffe import layers as L

from latent_domains.models.prototxt import net_text
from latent_domains.nets import alexnet

BLOB = "fc7"
"""The blob that holds the features, N×4096, before fc7's ReLU."""


def feature_net() -> str:
    """A deploy net, images (1×3×227×227) to features."""
    n = NetSpec()
    n.data = L.Input(shape={"dim": [1, 3, 227, 227]})
    alexnet.fc7_features(n, n.data)
    return net_text("alexnet_fc7_features", n.to_proto())
