"""What is left of AlexNet on stored fc7 features, for the comparison with shallow methods (section 4.2).

Nothing below fc7 learns, so the features are extracted once (tools.extract_features): mDA on them and after the
classifier. They are taken before fc7's ReLU, as in the authors' net.
"""

from caffe.net_spec import NetSpec, Top

from latent_domains.experiment.experiment import Experiment
from latent_domains.nets.alexnet import classifier
from latent_domains.nets.blocks import GAUSSIAN, Normalisation, inner_product, relu

BRANCH_SEES_ALL = False
"""The branch has no normalisation: it gets the rows it decides about."""


def stem(n: NetSpec, data: Top, experiment: Experiment) -> Top:
    """Nothing is left below the features. data: N×4096×1×1."""
    return data


def branch(n: NetSpec, fc7: Top, experiment: Experiment, k: int, prefix: str) -> Top:
    """A domain prediction branch: ReLU and the domain classifier. Returns logits N×k."""
    x = relu(n, f"{prefix}_relu", fc7, in_place=False)
    return inner_product(n, f"{prefix}_fc", x, k, bias=True, filler=GAUSSIAN, lr_mult=10)


def trunk(n: NetSpec, fc7: Top, normalise: Normalisation, experiment: Experiment) -> Top:
    """fc7's normalisation and ReLU, the classifier, its normalisation. Returns class scores N×classes."""
    return classifier(n, fc7, normalise, experiment)
