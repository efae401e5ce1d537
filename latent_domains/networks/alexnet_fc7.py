"""The top of AlexNet, on stored fc7 features, for the comparison with shallow methods (section 4.2).

Nothing below fc7 learns, so the features are extracted once (tools.extract_features): mDA on them and after the
classifier. They are taken before fc7's ReLU, as in the authors' net.
"""

from latent_domains.networks.alexnet import normalised_classifier, normalised_fc7
from latent_domains.networks.blocks import Experiment, NetSpec, Top, relu
from latent_domains.networks.network import Network


def stem(n: NetSpec, data: Top, experiment: Experiment) -> Top:
    """Return the features themselves: data, N×4096×1×1."""
    return data


def branch(n: NetSpec, fc7: Top, experiment: Experiment, prefix: str) -> Top:
    """Return a domain prediction branch: ReLU. Returns features N×4096×1×1."""
    return relu(n, f"{prefix}_relu", fc7, in_place=False)


ALEXNET_FC7 = Network(
    "alexnet_fc7",
    "AlexNet's fc7 features",
    stem,
    branch,
    normalised_fc7,
    classifier=normalised_classifier,
    images="office31_fc7",
    megabytes=1500,
    folder="alexnet",
)
