"""Finds the layers that stand for one mDA layer in the fork's nets.

In the training net: a Slice of the rows into groups (sources, then target); for a group of k latent domains, k
MultiModalBatchNorm layers, each with its column of the group's softmax, and an Eltwise sum of them; for a group of one
known domain, a BatchNorm; a Concat of the groups. In the test net, the target's group alone.
"""

from collections.abc import Collection
from dataclasses import dataclass

from caffe.proto.caffe_pb2 import EltwiseParameter

from latent_domains.common.program import ProgramError
from latent_domains.convert.fork.rows import joins_rows, splits_rows
from latent_domains.convert.fork.text import MULTIMODAL
from latent_domains.models.graph import Graph, Node, Value


@dataclass(frozen=True)
class RowGroup:
    """The normalisation of one group of rows."""

    x: Value
    norms: tuple[Node, ...]
    """The layers that normalise, in the order of their domains."""
    softmax: Node | None
    """The layer that predicts the domains; None for one known domain."""


@dataclass(frozen=True)
class MDAGroup:
    """All the layers that one mDA layer does the work of."""

    x: Value
    root: Node
    parts: tuple[RowGroup, ...]

    @property
    def out(self) -> Value:
        """The normalised features."""
        return self.root.tops[0]

    @property
    def norms(self) -> tuple[Node, ...]:
        """The layers that normalise, in the order of the domains."""
        return tuple(norm for part in self.parts for norm in part.norms)

    @property
    def assignment(self) -> tuple[tuple[Node | None, int], ...]:
        """For each group of rows, the layer that predicts its domains, and their number."""
        return tuple((part.softmax, len(part.norms)) for part in self.parts)


def find_groups(graph: Graph, where: str, targets: Collection[str] = ()) -> list[MDAGroup]:
    """All groups of a graph, in order.

    ``targets`` are the BatchNorms that are a group alone: the target's in a test net. ``where`` begins messages: file
    and phase. Raises ProgramError naming the layer if a MultiModalBatchNorm is used in another way, or if the groups
    have not all the same domains.
    """
    found: list[MDAGroup] = []
    for node in reversed(graph.nodes):  # a layer that joins or sums comes before the ones that it joins or sums
        if any(node in group.norms or node in map(graph.maker, group.root.bottoms) for group in found):
            continue
        if joins_rows(node):
            found += _joined(graph, node, where)
        elif (node.kind == "BatchNorm" and node.name in targets) or _is_latent(graph, node):
            part = _part(graph, node, where)
            found.append(MDAGroup(part.x, node, (part,)))
    found.reverse()
    for group in found:
        if group.assignment != found[0].assignment:
            domains = [
                " then ".join(f"{k} of {softmax.name}" if softmax else "a known one" for softmax, k in one.assignment)
                for one in (group, found[0])
            ]
            raise ProgramError(
                f"{where}: the domains of {group.root.title} are {domains[0]}, those of {found[0].root.title} are "
                f"{domains[1]}: expected the same in every layer"
            )
    return found


def _joined(graph: Graph, node: Node, where: str) -> list[MDAGroup]:
    """The group that ends in a Concat of rows; none if it joins something else."""
    roots = [graph.maker(bottom) for bottom in node.bottoms]
    latent = [_is_latent(graph, root) for root in roots]
    if all(is_latent or root.kind == "BatchNorm" for root, is_latent in zip(roots, latent, strict=True)):
        parts = tuple(_part(graph, root, where) for root in roots)
        source = graph.maker(parts[0].x)
        if splits_rows(source) and source.tops == [part.x for part in parts]:
            return [MDAGroup(source.bottoms[0], node, parts)]
    if any(latent):
        raise ProgramError(
            f"{where}: layer {node.title} joins {', '.join(root.title for root in roots)}, expected the normalised "
            "parts of one Slice of rows, all of them and in order"
        )
    return []


def _part(graph: Graph, root: Node, where: str) -> RowGroup:
    """The normalisation that ends in ``root``: a sum, one MultiModalBatchNorm, or a BatchNorm."""
    if root.kind == "BatchNorm":
        return RowGroup(root.bottoms[0], (root,), None)
    norms = [root] if root.kind == MULTIMODAL else [graph.maker(bottom) for bottom in root.bottoms]
    odd = [norm for norm in norms if norm.kind != MULTIMODAL or len(norm.bottoms) != 2]
    param = root.layer.eltwise_param
    is_sum = param.operation == EltwiseParameter.SUM and all(value == 1 for value in param.coeff)
    if odd or not is_sum or len({norm.bottoms[0] for norm in norms}) > 1:
        raise ProgramError(
            f"{where}: layer {root.title} makes its result of {', '.join(node.title for node in odd or norms)}, "
            f"expected the plain sum of {MULTIMODAL} layers of the same features"
        )
    columns = [_column(graph, norm.bottoms[1]) for norm in norms]
    softmax, width = columns[0][0], len(graph.maker(norms[0].bottoms[1]).tops)
    by_column = {column: norm for norm, (maker, column) in zip(norms, columns, strict=True) if maker is softmax}
    if softmax is None or sorted(by_column) != list(range(width)):
        raise ProgramError(
            f"{where}: layer {root.title} is made by {', '.join(norm.name for norm in norms)}, whose weights are "
            f"{', '.join(norm.bottoms[1].name for norm in norms)}: expected each column of one Softmax along axis 1, "
            "once, of a Slice into single columns"
        )
    return RowGroup(norms[0].bottoms[0], tuple(by_column[column] for column in sorted(by_column)), softmax)


def _is_latent(graph: Graph, node: Node) -> bool:
    """Whether a node is the normalisation of latent domains: a MultiModalBatchNorm or a sum of such."""
    return node.kind == MULTIMODAL or (
        node.kind == "Eltwise" and any(graph.maker(bottom).kind == MULTIMODAL for bottom in node.bottoms)
    )


def _column(graph: Graph, w: Value) -> tuple[Node | None, int]:
    """The softmax that a domain's weights are a column of (None: they are none's), and the column."""
    node, column = graph.maker(w), 0
    if node.kind == "Slice":
        points = list(node.layer.slice_param.slice_point)
        if node.layer.slice_param.axis != 1 or points not in ([], list(range(1, len(node.tops)))):
            return None, 0
        node, column = graph.maker(node.bottoms[0]), node.tops.index(w)
    return (node if node.kind == "Softmax" and node.layer.softmax_param.axis == 1 else None), column
