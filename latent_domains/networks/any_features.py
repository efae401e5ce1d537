"""A classifier on stored features of any backbone: a linear one, or as section 4.2 has it on AlexNet's fc7.

Nothing below the features learns, so they are extracted once (tools.extract_features). A record is the backbone's final
features and, after them, statistics of its early blocks, if the dataset has any. These distinguish domains better than
the last layer, which was trained to distinguish classes.
"""

from dataclasses import replace

from latent_domains.networks.alexnet import normalised_classifier
from latent_domains.networks.blocks import Experiment, L, NetSpec, Normalisation, Top, batch_norm, relu
from latent_domains.networks.network import Network, linear_classifier


def stem(n: NetSpec, data: Top, experiment: Experiment) -> Top:
    """Return the features themselves: data, N×C×1×1."""
    return data


def branch(n: NetSpec, data: Top, experiment: Experiment, prefix: str) -> Top:
    """Return a domain prediction branch: ReLU of the final features, or the early statistics (N×E×1×1).

    The early statistics have both signs and their own units, so a BN without affine normalises them, with any
    ``branch_norm``.
    """
    x = _part(n, data, experiment, prefix, experiment.method.branch_input)
    if experiment.method.branch_input == "final":
        return relu(n, f"{prefix}_relu", x, in_place=False)
    return batch_norm(n, f"{prefix}_standardised", x, experiment.recipe.moving_average_fraction)


def features(n: NetSpec, data: Top, normalise: Normalisation, experiment: Experiment) -> Top:
    """Return the final features, normalised; with the paper's head a ReLU follows, with a linear head none."""
    final = _part(n, data, experiment, "class", "final")
    if experiment.recipe.head == "linear":
        return replace(normalise, scale=False)(n, "features", final)
    return relu(n, "relu", normalise(n, "features", final), in_place=normalise.layer != "none")


def classifier(n: NetSpec, features: Top, normalise: Normalisation, experiment: Experiment) -> Top:
    """Return the classifier, N×classes.

    With the paper's head its scores are normalised, with a linear head they are not.
    """
    kind = linear_classifier if experiment.recipe.head == "linear" else normalised_classifier
    return kind(n, features, normalise, experiment)


def _part(n: NetSpec, data: Top, experiment: Experiment, prefix: str, part: str) -> Top:
    """Return the "final" or the "early" numbers of the records."""
    if not experiment.data.early:
        return data
    names = {part: f"{prefix}_{part}" for part in ("final", "early")}
    size = experiment.data.shape[0] - experiment.data.early
    n[names["final"]], n[names["early"]] = L.Slice(data, axis=1, slice_point=size, ntop=2)
    chosen = n[names.pop(part)]
    (unread,) = names.values()
    n[f"silence_{unread}"] = L.Silence(n[unread], ntop=0)
    return chosen


ANY_FEATURES = Network(
    "features",
    "features of a backbone",
    stem,
    branch,
    features,
    classifier=classifier,
    images="pacs_lite0",
    recipe="pacs_lite0",
    megabytes=1500,
)
