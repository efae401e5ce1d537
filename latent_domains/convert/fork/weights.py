"""The fork's names and blobs, and ours: one MDALayer's rows of statistics from the layers of its domains.

Weights load by name. So the layers of a fork's net get the names of the same roles in our generator
(:mod:`latent_domains.nets`); one without a counterpart keeps its name.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import caffe
import numpy as np

from latent_domains.common.program import ProgramError
from latent_domains.convert.fork.structure import ENTROPY, MDAGroup, splits_rows
from latent_domains.models.graph import Graph, Node
from latent_domains.models.model import Array, check_finite
from latent_domains.models.weights import check_weights, for_caffe

BRANCHES = ("domain", "target_domain")
"""The prefixes of the layers' names in the sources' and in the targets' branch."""

_RESIDUAL = re.compile(r"res(\w+_branch\w+)")
_OF_BRANCH = re.compile("_wl_(source|target)")
"""In the authors' names for the residual block of a branch, as in res2a_wl_source_branch1."""


@dataclass(frozen=True)
class Names:
    """The names in our net."""

    layers: dict[str, str]
    """New names of layers by their old ones."""
    mda: dict[str, str]
    """The mDA layer that each normalising layer of the fork becomes part of."""


def find_names(graph: Graph, groups: Sequence[MDAGroup]) -> Names:
    """Return the names in a training net and so, for layers of the same names, in the test net."""
    names = Names({}, {})
    for group in groups:
        features = graph.maker(group.x).name
        residual = _RESIDUAL.fullmatch(features)
        mda, scale = (f"{kind}{residual[1]}" if residual else f"{features}_{kind}" for kind in ("mda", "scale"))
        names.mda.update((norm.name, mda) for norm in group.norms)
        users = graph.readers(group.out)
        if len(users) == 1 and users[0].kind == "Scale" and len(users[0].bottoms) == 1:
            names.layers[users[0].name] = scale
    made_of = {group.out: [group.x] for group in groups}  # features, without the weights of their domains
    trunk = graph.ancestors([group.x for group in groups], lambda node: made_of.get(node.tops[0], node.bottoms))
    for part, prefix in zip(groups[0].parts, BRANCHES, strict=True):
        if part.softmax is not None:
            branch = [node for node in graph.ancestors(part.softmax.bottoms) if node not in trunk]
            for old, new in _branch(branch, prefix).items():  # both branches may read what the first layers make
                names.layers.setdefault(old, new)
            entropies = [node for node in graph.readers(part.softmax.bottoms[0]) if node.kind == ENTROPY]
            names.layers.update((node.name, f"entropy_{prefix}") for node in entropies)
    for kind, name in (("SoftmaxWithLoss", "loss_class"), (ENTROPY, "entropy_class")):
        losses = [node for node in graph.nodes if node.kind == kind and node.name not in names.layers]
        if len(losses) == 1:
            names.layers[losses[0].name] = name
            source = graph.maker(losses[0].bottoms[0])
            if splits_rows(source) and len(source.tops) == 2:
                names.layers[source.name] = "scores_source"
    return names


def _branch(branch: Sequence[Node], prefix: str) -> dict[str, str]:
    """Return names in a domain prediction branch: by the authors' names in a residual block, else by order."""
    names = {node.name: f"{prefix}_{_OF_BRANCH.sub('', node.name)}" for node in branch if _OF_BRANCH.search(node.name)}
    rest = [node for node in branch if node.name not in names]
    learned = [node for node in rest if node.kind in ("Convolution", "InnerProduct")]
    short = {"Convolution": "conv", "InnerProduct": "fc"}
    for number, node in enumerate(learned, start=2):  # conv1 is the stem's
        names[node.name] = f"{prefix}_{short[node.kind]}{number if len(learned) > 1 else ''}"
    for kind, name in (("ReLU", "relu"), ("Pooling", "pool")):
        alone = [node for node in rest if node.kind == kind]
        if len(alone) == 1:
            names[alone[0].name] = f"{prefix}_{name}"
    return names


Blobs = dict[str, list[Array]]
"""The blobs of each layer by its name."""


def read_blobs(weights: Path, nets: Sequence[caffe.Net]) -> Blobs:
    """Return the blobs in a caffemodel of the fork, by layer.

    Refuses layers that the nets lack, and statistics in the format of the older fork.
    """
    expected = dict.fromkeys(name for net in nets for name, blobs in net.params.items() if blobs)
    fit = check_weights(weights, nets, list(expected))
    if fit.unused:
        raise ProgramError(
            f"{weights}: found {', '.join(fit.unused)}, which the net lacks: these are weights of another net"
        )
    found: Blobs = {}
    with for_caffe(weights) as file:
        for net in nets:
            net.copy_from(str(file))
            found |= {name: [blob.data.copy() for blob in blobs] for name, blobs in net.params.items()}
    check_finite(found, weights)
    return found


def converted(blobs: Mapping[str, Sequence[Array]], groups: Iterable[MDAGroup], names: Names) -> Blobs:
    """Return the same blobs by our layers: the statistics of each group's domains as the rows of one mDA layer's."""
    found: Blobs = {}
    for group in groups:
        domains = [blobs[norm.name] for norm in group.norms]
        means, variances, divisors = (np.stack([domain[i] for domain in domains]) for i in range(3))
        found[names.mda[group.norms[0].name]] = [means, variances, divisors.reshape(-1)]
    others = {names.layers.get(name, name): list(values) for name, values in blobs.items() if name not in names.mda}
    return found | others
