"""The MNIST net of Ganin & Lempitsky with the paper's additions (section 4.1).

conv 5×5×32, pool, conv 5×5×48, pool, fc 100, fc 100, fc 10, normalised after every layer with parameters. Those
layers have no bias where the normalisation subtracts it again. Pooling comes before ReLU, which gives the same values
as the other way round at a quarter of the work.
"""

from latent_domains.networks.blocks import (
    XAVIER,
    DomainClassifier,
    Experiment,
    NetSpec,
    Normalisation,
    Top,
    convolution,
    inner_product,
    max_pool,
    normalisation,
    relu,
)
from latent_domains.networks.network import Network


def stem(n: NetSpec, data: Top, experiment: Experiment) -> Top:
    """Return the layers that both branches share: conv1. data: N×3×28×28; returns N×32×24×24."""
    return convolution(
        n, "conv1", data, 32, 5, bias=experiment.net.conv1_bias or experiment.method.normalisation == "none"
    )


def branch(n: NetSpec, conv1: Top, experiment: Experiment, prefix: str) -> Top:
    """Return a domain prediction branch: a convolution like conv2, fc 100. Returns features N×100."""
    normalise = normalisation(experiment, "layers")
    bias = normalise.leaves_bias
    x = relu(n, f"{prefix}_relu1", max_pool(n, f"{prefix}_pool1", conv1, 2, 2))
    x = normalise(n, f"{prefix}_conv2", convolution(n, f"{prefix}_conv2", x, 48, 5, bias=bias))
    x = relu(n, f"{prefix}_relu2", max_pool(n, f"{prefix}_pool2", x, 2, 2))
    x = normalise(n, f"{prefix}_fc3", inner_product(n, f"{prefix}_fc3", x, 100, bias=bias))
    return relu(n, f"{prefix}_relu3", x)


def features(n: NetSpec, conv1: Top, normalise: Normalisation, experiment: Experiment) -> Top:
    """Return the classification branch from conv1 to fc4: N×100."""
    bias = normalise.leaves_bias
    x = normalise(n, "conv1", conv1)
    x = relu(n, "relu1", max_pool(n, "pool1", x, 2, 2))
    x = normalise(n, "conv2", convolution(n, "conv2", x, 48, 5, bias=bias))
    x = relu(n, "relu2", max_pool(n, "pool2", x, 2, 2))
    x = relu(n, "relu3", normalise(n, "fc3", inner_product(n, "fc3", x, 100, bias=bias)))
    return relu(n, "relu4", normalise(n, "fc4", inner_product(n, "fc4", x, 100, bias=bias)))


def classifier(n: NetSpec, fc4: Top, normalise: Normalisation, experiment: Experiment) -> Top:
    """Add fc5 and its normalisation. Returns class scores N×classes."""
    fc5 = inner_product(n, "fc5", fc4, experiment.data.classes, bias=normalise.leaves_bias)
    return normalise(n, "fc5", fc5)


MNIST = Network(
    "mnist",
    "the MNIST net",
    stem,
    branch,
    features,
    classifier=classifier,
    domain_classifier=DomainClassifier("fc4", XAVIER, 1),
    images="digits",
    recipe="digits",
    conv1_bias=True,
    megabytes=2000,
    folder="mnist",
)
