"""BVLC's AlexNet with the paper's additions (section 4.1): frozen convolutions, mDA after fc6, fc7 and the classifier.

Layers have BVLC's names, so that bvlc_alexnet.caffemodel loads by name into conv1 … conv5, fc6 and fc7; its fc8 has no
namesake here. fc6 and fc7 keep the bias that BVLC's have, though the normalisation subtracts it again. Weights that
are not loaded begin as BVLC's did, biases at 0. Without normalisation there is BVLC's dropout instead.
"""

from latent_domains.data.published_file import PublishedFile
from latent_domains.networks.blocks import (
    GAUSSIAN,
    NARROW,
    Experiment,
    L,
    NetSpec,
    Normalisation,
    Top,
    convolution,
    global_average,
    inner_product,
    max_pool,
    relu,
)
from latent_domains.networks.network import Network, Pretrained

FEATURES = "fc7"
"""The blob of the features that shallow methods take, N×4096, before fc7's ReLU."""


def stem(n: NetSpec, data: Top, experiment: Experiment) -> Top:
    """Return the frozen convolutions. data: N×3×227×227; returns pool5, N×256×6×6."""
    return _convolutions(n, data)


def branch(n: NetSpec, pool5: Top, experiment: Experiment, prefix: str) -> Top:
    """Return a domain prediction branch: ReLU, global average pooling. Returns features N×256×1×1."""
    return global_average(n, f"{prefix}_pool", relu(n, f"{prefix}_relu", pool5, in_place=False))


def features(n: NetSpec, pool5: Top, normalise: Normalisation, experiment: Experiment) -> Top:
    """Return the fully connected layers: N×4096."""
    fc6 = inner_product(n, "fc6", pool5, 4096, bias=True, filler=NARROW)
    x = _dropout(n, "drop6", relu(n, "relu6", normalise(n, "fc6", fc6)), normalise)
    fc7 = inner_product(n, "fc7", x, 4096, bias=True, filler=NARROW)
    return normalised_fc7(n, fc7, normalise, experiment)


def normalised_fc7(n: NetSpec, fc7: Top, normalise: Normalisation, experiment: Experiment) -> Top:
    """Return fc7's normalisation and ReLU."""
    x = relu(n, "relu7", normalise(n, "fc7", fc7), in_place=normalise.layer != "none")
    return _dropout(n, "drop7", x, normalise)


def normalised_classifier(n: NetSpec, features: Top, normalise: Normalisation, experiment: Experiment) -> Top:
    """Return the classifier and its normalisation. Returns class scores N×classes."""
    classes, bias = experiment.data.classes, normalise.leaves_bias
    x = inner_product(n, "classifier", features, classes, bias=bias, filler=GAUSSIAN, lr_mult=10)
    return normalise(n, "classifier", x)


def fc7_features(n: NetSpec, data: Top) -> None:
    """Add the layers from images (N×3×227×227) to FEATURES: BVLC's AlexNet as it was trained, without normalisation."""
    pool5 = _convolutions(n, data)
    x = relu(n, "relu6", inner_product(n, "fc6", pool5, 4096, bias=True, filler=NARROW, lr_mult=0))
    inner_product(n, FEATURES, x, 4096, bias=True, filler=NARROW, lr_mult=0)


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
    """Add BVLC's dropout, in a net without normalisation."""
    if normalise.layer == "none":
        n[name] = L.Dropout(x, dropout_ratio=0.5, in_place=True)
        return n[name]
    return x


def _lrn(n: NetSpec, name: str, x: Top) -> Top:
    n[name] = L.LRN(x, local_size=5, alpha=1e-4, beta=0.75)
    return n[name]


# BVLC publishes the sha1 (models/bvlc_alexnet/readme.md); the sha256 is OpenVINO's open_model_zoo's, for the same URL.
# NVIDIA's and MXNet's copies have that sha1.
_WEIGHTS = Pretrained(
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

ALEXNET = Network(
    "alexnet",
    "AlexNet",
    stem,
    branch,
    features,
    classifier=normalised_classifier,
    images="office31",
    recipe="pacs",
    megabytes=6000,
    folder="alexnet",
    weights=(_WEIGHTS,),
)
