"""What stands for one mDA layer in the fork's nets.

In the training net: a Slice of the rows into groups (sources, then target); for a group of k latent domains, k
MultiModalBatchNorm layers, each with its column of the group's softmax, and an Eltwise sum of them; for a group of one
known domain, a BatchNorm; a Concat of the groups. In the test net, the target's group alone.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from operator import itemgetter

from caffe.proto.caffe_pb2 import EltwiseParameter

from latent_domains.common.program import ProgramError
from latent_domains.convert.fork.messages import MULTIMODAL
from latent_domains.convert.fork.rows import joins_rows, splits_rows
from latent_domains.models.graph import Graph, Node, Value


@dataclass(frozen=True)
class Part:
    """The normalisation of one group of rows."""

    x: Value
    norms: tuple[Node, ...]
    """The layers that normalise, in the order of their domains."""
    softmax: Node | None
    """What predicts the domains; None where there is one known domain."""


@dataclass(frozen=True)
class Group:
    """All the layers that one mDA layer does the work of."""

    x: Value
    out: Value
    root: Node
    parts: tuple[Part, ...]

    @property
    def norms(self) -> tuple[Node, ...]:
        """The layers that normalise, in the order of the domains."""
        return tuple(norm for part in self.parts for norm in part.norms)

    @property
    def assignment(self) -> tuple[tuple[Node | None, int], ...]:
        """What predicts the domains of each group of rows, and how many there are."""
        return tuple((part.softmax, len(part.norms)) for part in self.parts)


class Recogniser:
    """Finds the groups of a graph; ``where`` begins its messages: file and phase."""

    def __init__(self, graph: Graph, where: str) -> None:
        self._graph = graph
        self._where = where

    def groups(self, targets: Collection[str] = ()) -> list[Group]:
        """All groups, in order. ``targets`` are the BatchNorms that are a group alone: the target's in a test net.

        Raises ProgramError naming the layer if a MultiModalBatchNorm is used in another way.
        """
        found = []
        for node in self._graph.nodes:
            if joins_rows(node) and (group := self._joined(node)):
                found.append(group)
        taken = {norm for group in found for norm in group.norms}
        for node in self._graph.nodes:
            alone = node.kind == "BatchNorm" and node.name in targets
            if alone or (self._is_sum(node) and not taken.intersection(self._summed(node))):
                part = self._part(node)
                found.append(Group(part.x, node.tops[0], node, (part,)))
                taken.update(part.norms)
        for node in self._graph.nodes:
            if node.kind == MULTIMODAL and node not in taken:
                if any(self._is_sum(user) for user in self._graph.readers(node.tops[0])):
                    raise self._error(node, "is summed together with layers of another kind")
                part = self._part(node)
                found.append(Group(part.x, node.tops[0], node, (part,)))
        order = {node: i for i, node in enumerate(self._graph.nodes)}
        return sorted(found, key=lambda group: order[group.root])

    def _joined(self, node: Node) -> Group | None:
        """The group that ends in a Concat of rows; None if it joins something else."""
        roots = [self._graph.maker(bottom) for bottom in node.bottoms]
        if not all(root.kind == "BatchNorm" or self._is_norm(root) for root in roots):
            odd = next(root for root in roots if not (root.kind == "BatchNorm" or self._is_norm(root)))
            if any(self._is_norm(root) for root in roots):
                raise self._error(node, f"joins normalised rows with those of {odd.said}, expected a BatchNorm's")
            return None
        parts = tuple(self._part(root) for root in roots)
        slices = {self._graph.maker(part.x) for part in parts}
        (source, *others) = slices
        whole = not others and splits_rows(source) and list(source.tops) == [part.x for part in parts]
        if not whole:
            if any(self._is_norm(root) for root in roots):
                names = ", ".join(sorted(source.name for source in slices))
                raise self._error(node, f"joins rows of {names}, expected all parts of one Slice of rows, in order")
            return None
        return Group(source.bottoms[0], node.tops[0], node, parts)

    def _part(self, root: Node) -> Part:
        """The normalisation that ends in ``root``: a sum, one MultiModalBatchNorm, or a BatchNorm."""
        if root.kind == "BatchNorm":
            return Part(root.bottoms[0], (root,), None)
        norms = self._summed(root)
        for norm in norms:
            if len(norm.bottoms) != 2 or len(norm.tops) != 1:
                raise self._error(norm, f"has {len(norm.bottoms)} bottoms and {len(norm.tops)} tops, expected 2 and 1")
            if norm.bottoms[0] is not norms[0].bottoms[0]:
                raise self._error(norm, f"reads other features than {norms[0].name}, with which it is summed")
        if root.kind == "Eltwise":
            param = root.layer.eltwise_param
            if param.operation != EltwiseParameter.SUM or any(value != 1 for value in param.coeff):
                raise self._error(root, "is no plain sum, which is what joins the domains")
        softmax, columns = self._columns(norms)
        if sorted(columns) != list(range(len(columns))):
            names = ", ".join(norm.name for norm in norms)
            raise self._error(
                root,
                f"has columns {', '.join(str(c + 1) for c in columns)} of the softmax of "
                f"{softmax.name} in {names}, expected each of them once",
            )
        ordered = [norm for _, norm in sorted(zip(columns, norms, strict=True), key=itemgetter(0))]
        return Part(norms[0].bottoms[0], tuple(ordered), softmax)

    def _columns(self, norms: Sequence[Node]) -> tuple[Node, list[int]]:
        """The softmax whose columns are the weights of ``norms``, and the column of each."""
        softmaxes, columns = [], []
        for norm in norms:
            source = self._graph.maker(norm.bottoms[1])
            if source.kind == "Slice" and _cuts_columns(source):
                columns.append(list(source.tops).index(norm.bottoms[1]))
                if len(source.tops) != len(norms):
                    raise self._error(
                        source,
                        f"gives {len(source.tops)} domains, but {norm.name} is summed with {len(norms) - 1} others",
                    )
                source = self._graph.maker(source.bottoms[0])
            else:
                columns.append(0)
            if source.kind != "Softmax" or source.layer.softmax_param.axis != 1:
                raise self._error(
                    norm,
                    f"takes its weights from {source.said}, expected a Slice of a Softmax along "
                    "axis 1 into single columns",
                )
            softmaxes.append(source)
        for norm, softmax in zip(norms, softmaxes, strict=True):
            if softmax is not softmaxes[0]:
                raise self._error(
                    norm,
                    f"takes its weights from {softmax.name}, but {norms[0].name}, with which it is "
                    f"summed, from {softmaxes[0].name}",
                )
        return softmaxes[0], columns

    def _is_norm(self, node: Node) -> bool:
        return node.kind == MULTIMODAL or self._is_sum(node)

    def _is_sum(self, node: Node) -> bool:
        return node.kind == "Eltwise" and any(self._graph.maker(bottom).kind == MULTIMODAL for bottom in node.bottoms)

    def _summed(self, root: Node) -> list[Node]:
        if root.kind == MULTIMODAL:
            return [root]
        summed = [self._graph.maker(bottom) for bottom in root.bottoms]
        for node in summed:
            if node.kind != MULTIMODAL:
                raise self._error(root, f"adds {node.said} to normalised features, expected {MULTIMODAL} layers alone")
        return summed

    def _error(self, node: Node, why: str) -> ProgramError:
        return ProgramError(f"{self._where}: layer {node.said} {why}")


def check_same_assignment(groups: Sequence[Group], where: str) -> None:
    """Raise ProgramError unless all groups of a graph have the rows w of the first; ``where``: file and phase."""
    for group in groups:
        if group.assignment != groups[0].assignment:
            raise ProgramError(
                f"{where}: the domains of {group.root.said} are {_said(group)}, those of {groups[0].root.said} are "
                f"{_said(groups[0])}: expected the same in every layer"
            )


def _said(group: Group) -> str:
    return " then ".join(f"{k} of {softmax.name}" if softmax else "a known one" for softmax, k in group.assignment)


def _cuts_columns(node: Node) -> bool:
    """Whether a Slice gives each column of its bottom a top of its own."""
    points = list(node.layer.slice_param.slice_point)
    return node.layer.slice_param.axis == 1 and points in ([], list(range(1, len(node.tops))))
