"""Our generator's names (latent_domains.nets) for the layers of a fork's net that have the same roles.

Weights load by name, so these are what makes a converted model one of ours. A layer that has no namesake keeps its own
name.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from latent_domains.convert.fork.groups import MDAGroup
from latent_domains.convert.fork.rows import splits_rows
from latent_domains.convert.fork.text import ENTROPY
from latent_domains.models.graph import Graph, Node

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
    columns: dict[str, int]
    """The domain of each normalising layer."""

    @property
    def domains(self) -> int:
        """How many domains there are, sources and targets."""
        return 1 + max(self.columns.values())


def find_names(graph: Graph, groups: Sequence[MDAGroup]) -> Names:
    """The names in a training net and so, for layers of the same names, in the test net."""
    names = Names({}, {}, {})
    for group in groups:
        mda, scale = _normalisation(graph.maker(group.x).name)
        for column, norm in enumerate(group.norms):
            names.mda[norm.name], names.columns[norm.name] = mda, column
        users = graph.readers(group.out)
        if len(users) == 1 and users[0].kind == "Scale" and len(users[0].bottoms) == 1:
            names.layers[users[0].name] = scale
    trunk = _trunk(graph, groups)
    for (softmax, _), prefix in zip(groups[0].assignment, part_names(groups[0])[0], strict=True):
        if softmax is not None:
            branch = [node for node in graph.ancestors(softmax.bottoms) if node not in trunk]
            for old, new in _branch(branch, prefix).items():
                names.layers.setdefault(old, new)
            for node in graph.readers(softmax.bottoms[0]):
                if node.kind == ENTROPY:
                    names.layers[node.name] = f"entropy_{prefix}"
    names.layers.update(_losses(graph, names.layers))
    return names


def part_names(group: MDAGroup) -> tuple[list[str], list[str]]:
    """For each group of rows the prefix of its branch's layers and the name of its w."""
    sources = len(group.parts) - 1
    numbers = [""] if sources == 1 else [str(i + 1) for i in range(sources)]
    return (
        [*(f"domain{number}" for number in numbers), "target_domain"],
        [*(f"w_source{number}" for number in numbers), "w_target"],
    )


def _normalisation(name: str) -> tuple[str, str]:
    """Names of the mDA layer and of the Scale after a layer."""
    if found := _RESIDUAL.fullmatch(name):
        return f"mda{found[1]}", f"scale{found[1]}"
    return f"{name}_mda", f"{name}_scale"


def _trunk(graph: Graph, groups: Sequence[MDAGroup]) -> set[Node]:
    """The layers that compute the features, without those that compute the weights of their domains."""
    features = {group.out: [group.x] for group in groups}
    return set(graph.ancestors([group.x for group in groups], lambda node: features.get(node.tops[0], node.bottoms)))


def _branch(branch: Sequence[Node], prefix: str) -> dict[str, str]:
    """Names in a domain prediction branch: of a residual block by the authors' names, else by the order of layers."""
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


def _losses(graph: Graph, named: dict[str, str]) -> dict[str, str]:
    """Names of the losses on class scores and of the slice that parts the scores."""
    names = {}
    for kind, name in (("SoftmaxWithLoss", "loss_class"), (ENTROPY, "entropy_class")):
        alone = [node for node in graph.nodes if node.kind == kind and node.name not in named]
        if len(alone) == 1:
            names[alone[0].name] = name
            source = graph.maker(alone[0].bottoms[0])
            if splits_rows(source) and len(source.tops) == 2:
                names[source.name] = "scores_source"
    return names
