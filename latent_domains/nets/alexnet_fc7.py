"""The top of AlexNet, on stored fc7 features, for the comparison with shallow methods (section 4.2).

Nothing below fc7 learns, so the features are extracted once (tools.extract_features): mDA on them and after the
classifier. They are taken before fc7's ReLU, as in the authors' net.
"""

from caffe.net_spec import NetSpec, Top

from latent_domains.experiment.experiment import Experiment
from latent_domains.nets.alexnet import classifier
from latent_domains.nets.architecture import Architecture
from latent_domains.nets.blocks import Normalisation, relu


def stem(n: NetSpec, data: Top, experiment: Experiment) -> Top:
    """Return the features themselves: data, N×4096×1×1."""
    return data


def branch(n: NetSpec, fc7: Top, experiment: Experiment, prefix: str) -> Top:
    """A domain prediction branch: ReLU. Returns features N×4096×1×1."""
    return relu(n, f"{prefix}_relu", fc7, in_place=False)


def trunk(n: NetSpec, fc7: Top, normalise: Normalisation, experiment: Experiment) -> Top:
    """fc7's normalisation and ReLU, the classifier, its normalisation. Returns class scores N×classes."""
    return classifier(n, fc7, normalise, experiment)


ALEXNET_FC7 = Architecture(stem, branch, trunk)
