"""Our generator's names (latent_domains.nets) for the layers of a fork's net that have the same roles.

Weights load by name, so these are what makes a converted model one of ours. A layer that has no namesake keeps its own
name.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from latent_domains.common.program import ProgramError
from latent_domains.convert.fork.groups import Group
from latent_domains.convert.fork.messages import ENTROPY
from latent_domains.convert.fork.rows import splits_rows
from latent_domains.models.graph import Graph, Node, Value

_RESIDUAL = re.compile(r"res(\w+_branch\w+)")
_POINTWISE = ("BatchNorm", "Scale", "ReLU")


@dataclass(frozen=True)
class Names:
    """What things are called in our net."""

    layers: dict[str, str]
    """New names of layers by their old ones."""
    mda: dict[str, str]
    """The mDA layer that each normalising layer of the fork becomes part of."""
    columns: dict[str, int]
    """The domain of each normalising layer."""
    assignments: dict[str, str]
    """The layer of w for each layer that predicts domains (a softmax)."""


def find_names(graph: Graph, groups: Sequence[Group], file: Path) -> Names:
    """The names in a training net and so, for layers of the same names, in the test net.

    Raises ProgramError if two layers would have one name.
    """
    names = Names({}, {}, {}, {})
    for group in groups:
        mda, scale = _normalisation(graph.maker(group.x).name)
        for column, norm in enumerate(group.norms):
            names.mda[norm.name], names.columns[norm.name] = mda, column
        users = graph.readers(group.out)
        if len(users) == 1 and users[0].kind == "Scale" and len(users[0].bottoms) == 1:
            names.layers[users[0].name] = scale
    trunk = _trunk(graph, groups)
    for (softmax, _), prefix, w in zip(groups[0].assignment, *part_names(groups[0]), strict=True):
        if softmax is not None:
            names.assignments[softmax.name] = w
            branch = [node for node in graph.ancestors(softmax.bottoms) if node not in trunk]
            for old, new in _branch(Graph(graph.name, branch), prefix).items():
                names.layers.setdefault(old, new)
            for node in graph.readers(softmax.bottoms[0]):
                if node.kind == ENTROPY:
                    names.layers[node.name] = f"entropy_{prefix}"
    names.layers.update(_losses(graph, names.layers))
    _check_unique(graph, groups, names, file)
    return names


def part_names(group: Group) -> tuple[list[str], list[str]]:
    """For each group of rows the prefix of its branch's layers and the name of its w."""
    sources = len(group.parts) - 1
    numbers = [""] if sources == 1 else [str(i + 1) for i in range(sources)]
    return (
        [*(f"domain{number}" for number in numbers), "target_domain"],
        [*(f"w_source{number}" for number in numbers), "w_target"],
    )


def check_single(graph: Graph, added: Iterable[str], where: str) -> None:
    """Raise ProgramError, beginning with ``where``, if a layer has one of the names of those that were ``added``."""
    for name in added:
        said = [node.said for node in graph.nodes if node.name == name]
        if len(said) > 1:
            raise ProgramError(f"{where}: layers {' and '.join(said)} would both be called {name}")


def _normalisation(name: str) -> tuple[str, str]:
    """Names of the mDA layer and of the Scale after a layer."""
    if found := _RESIDUAL.fullmatch(name):
        return f"mda{found[1]}", f"scale{found[1]}"
    return f"{name}_mda", f"{name}_scale"


def _trunk(graph: Graph, groups: Sequence[Group]) -> set[Node]:
    """What the features are computed by, but not the weights of their domains."""
    features = {group.out: [group.x] for group in groups}
    return set(graph.ancestors([group.x for group in groups], lambda node: features.get(node.tops[0], node.bottoms)))


def _branch(branch: Graph, prefix: str) -> dict[str, str]:
    """Names in a domain prediction branch: those of a residual block, and else by the order of its layers."""
    names = {}
    for node in branch.nodes:
        if node.kind == "Eltwise" and (block := _block(branch, node, prefix)):
            names.update(block)
    rest = [node for node in branch.nodes if node.name not in names]
    learned = [node for node in rest if node.kind in ("Convolution", "InnerProduct")]
    short = {"Convolution": "conv", "InnerProduct": "fc"}
    for number, node in enumerate(learned, start=2):  # conv1 is the stem's
        names[node.name] = f"{prefix}_{short[node.kind]}{number if len(learned) > 1 else ''}"
    for kind, name in (("ReLU", "relu"), ("Pooling", "pool")):
        alone = [node for node in rest if node.kind == kind]
        if len(alone) == 1:
            names[alone[0].name] = f"{prefix}_{name}"
    return names


def _block(branch: Graph, eltwise: Node, prefix: str) -> dict[str, str] | None:
    """Names of the residual block that ends in ``eltwise``, called 2a; None if it is not one with a projection."""
    paths = [_path(branch, bottom) for bottom in eltwise.bottoms]
    paths.sort(key=len)
    if [[node.kind for node in path if node.kind == "Convolution"] for path in paths] != [
        ["Convolution"],
        ["Convolution"] * 2,
    ]:
        return None
    names = {eltwise.name: f"{prefix}_res2a"}
    for path, parts in zip(paths, (["branch1"], ["branch2a", "branch2b"]), strict=True):
        left = list(parts)
        for node in path:
            if node.kind == "Convolution":
                part = left.pop(0)
            new = {"Convolution": "res2a_{}", "BatchNorm": "bn2a_{}", "Scale": "scale2a_{}", "ReLU": "res2a_{}_relu"}
            names[node.name] = f"{prefix}_{new[node.kind].format(part)}"
    after = branch.readers(eltwise.tops[0])
    if len(after) == 1 and after[0].kind == "ReLU":
        names[after[0].name] = f"{prefix}_res2a_relu"
    return names


def _path(branch: Graph, value: Value) -> list[Node]:
    """The chain of convolutions and layers on single values that ends in ``value``, in order."""
    path: list[Node] = []
    while (node := branch.maker(value)) is not None and node.kind in ("Convolution", *_POINTWISE):
        path.insert(0, node)
        (value,) = node.bottoms
    first = next((i for i, node in enumerate(path) if node.kind == "Convolution"), len(path))
    return path[first:]


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


def _check_unique(graph: Graph, groups: Sequence[Group], names: Names, file: Path) -> None:
    inner = {norm.name for group in groups for norm in group.norms}
    owners: dict[str, str] = {}
    new = [(node.name, names.layers.get(node.name, node.name)) for node in graph.nodes if node.name not in inner]
    new += [(group.root.name, names.mda[group.norms[0].name]) for group in groups]
    for old, name in new:
        if owners.setdefault(name, old) != old:
            raise ProgramError(f"{file}: layers {owners[name]} and {old} would both be called {name}")
