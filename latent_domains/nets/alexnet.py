"""BVLC's AlexNet with the paper's additions (section 4.1): frozen convolutions, mDA after fc6, fc7 and the classifier.

Layers have BVLC's names, so that bvlc_alexnet.caffemodel loads by name into conv1 … conv5, fc6 and fc7; its fc8 has no
namesake here. fc6 and fc7 keep the bias that BVLC's have, though the normalisation subtracts it again. Weights that
are not loaded begin as BVLC's did, biases at 0. Without normalisation there is BVLC's dropout instead.
"""

from caffe import layers as L
from caffe.net_spec import NetSpec, Top

from latent_domains.experiment.experiment import Experiment
from latent_domains.models.prototxt import net_text
from latent_domains.nets.architecture import Architecture
from latent_domains.nets.blocks import (
    GAUSSIAN,
    NARROW,
    Normalisation,
    convolution,
    global_average,
    inner_product,
    max_pool,
    relu,
)
from latent_domains.nets.comments import COMMENTS

FEATURES = "fc7"
"""The blob of the features that shallow methods take, N×4096, before fc7's ReLU."""


def stem(n: NetSpec, data: Top, experiment: Experiment) -> Top:
    """The frozen convolutions. data: N×3×227×227; returns pool5, N×256×6×6."""
    return _convolutions(n, data)


def branch(n: NetSpec, pool5: Top, experiment: Experiment, prefix: str) -> Top:
    """A domain prediction branch: ReLU, global average pooling. Returns features N×256×1×1."""
    return global_average(n, f"{prefix}_pool", relu(n, f"{prefix}_relu", pool5, in_place=False))


def trunk(n: NetSpec, pool5: Top, normalise: Normalisation, experiment: Experiment) -> Top:
    """The fully connected layers. Returns class scores N×classes."""
    fc6 = inner_product(n, "fc6", pool5, 4096, bias=True, filler=NARROW)
    x = _dropout(n, "drop6", relu(n, "relu6", normalise(n, "fc6", fc6)), normalise)
    fc7 = inner_product(n, "fc7", x, 4096, bias=True, filler=NARROW)
    return classifier(n, fc7, normalise, experiment)


def classifier(n: NetSpec, fc7: Top, normalise: Normalisation, experiment: Experiment) -> Top:
    """fc7's normalisation and ReLU, the classifier, its normalisation. Returns class scores N×classes."""
    x = relu(n, "relu7", normalise(n, "fc7", fc7), in_place=normalise.layer != "none")
    x = _dropout(n, "drop7", x, normalise)
    x = inner_product(
        n, "classifier", x, experiment.data.classes, bias=normalise.leaves_bias, filler=GAUSSIAN, lr_mult=10
    )
    return normalise(n, "classifier", x)


def feature_net() -> str:
    """A deploy net from images (1×3×227×227) to FEATURES: BVLC's AlexNet as it was trained, without normalisation."""
    n = NetSpec()
    n.data = L.Input(shape={"dim": [1, 3, 227, 227]})
    pool5 = _convolutions(n, n.data)
    x = relu(n, "relu6", inner_product(n, "fc6", pool5, 4096, bias=True, filler=NARROW, lr_mult=0))
    inner_product(n, FEATURES, x, 4096, bias=True, filler=NARROW, lr_mult=0)
    return net_text("alexnet_fc7_features", n.to_proto(), COMMENTS)


def _convolutions(n: NetSpec, data: Top) -> Top:
    x = _frozen(n, "conv1", data, 96, 11, stride=4)
    x = max_pool(n, "pool1", _lrn(n, "norm1", relu(n, "relu1", x)), 3, 2)
    x = _frozen(n, "conv2", x, 256, 5, pad=2, group=2)
    x = max_pool(n, "pool2", _lrn(n, "norm2", relu(n, "relu2", x)), 3, 2)
    x = relu(n, "relu3", _frozen(n, "conv3", x, 384, 3, pad=1))
    x = relu(n, "relu4", _frozen(n, "conv4", x, 384, 3, pad=1, group=2))
    x = relu(n, "relu5", _frozen(n, "conv5", x, 256, 3, pad=1, group=2))
    return max_pool(n, "pool5", x, 3, 2)


def _frozen(n: NetSpec, name: str, x: Top, num_output: int, kernel_size: int, **geometry: int) -> Top:
    return convolution(n, name, x, num_output, kernel_size, bias=True, filler=GAUSSIAN, lr_mult=0, **geometry)


def _dropout(n: NetSpec, name: str, x: Top, normalise: Normalisation) -> Top:
    """BVLC's dropout, in a net without normalisation."""
    if normalise.layer == "none":
        n[name] = L.Dropout(x, dropout_ratio=0.5, in_place=True)
        return n[name]
    return x


def _lrn(n: NetSpec, name: str, x: Top) -> Top:
    n[name] = L.LRN(x, local_size=5, alpha=1e-4, beta=0.75)
    return n[name]


ALEXNET = Architecture(stem, branch, trunk)
