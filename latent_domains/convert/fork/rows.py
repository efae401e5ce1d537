"""How many rows (images) each value of a graph has, and which data layers they come from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from caffe.proto.caffe_pb2 import LayerParameter

from latent_domains.common.program import ProgramError
from latent_domains.models.graph import Graph, Node, Value, copy

_SIZED = {"ImageData": "image_data_param", "Data": "data_param"}
"""The messages that hold a data layer's batch_size."""


@dataclass(frozen=True)
class Segment:
    """Rows that follow each other and come from one data layer."""

    node: Node
    rows: int


def is_data(node: Node) -> bool:
    """Whether a node brings images and labels into the net."""
    return node.kind in (*_SIZED, "Input")


def batch_size(layer: LayerParameter) -> int:
    """The rows that a data layer gives; 0 if it does not say."""
    if layer.type == "Input":
        shapes = layer.input_param.shape
        return shapes[0].dim[0] if shapes and shapes[0].dim else 0
    return getattr(layer, _SIZED[layer.type]).batch_size


def splits_rows(node: Node) -> bool:
    """Whether a node is a Slice along the rows."""
    return node.kind == "Slice" and node.layer.slice_param.axis == 0


def joins_rows(node: Node) -> bool:
    """Whether a node is a Concat along the rows."""
    return node.kind == "Concat" and node.layer.concat_param.axis == 0


def segments(graph: Graph, file: Path) -> dict[Value, tuple[Segment, ...]]:
    """The rows of every value.

    Raises ProgramError if a data layer gives none or a Slice cuts rows that are not there.
    """
    found: dict[Value, tuple[Segment, ...]] = {}
    for node in graph.nodes:
        below = [found.get(bottom, ()) for bottom in node.bottoms]
        if is_data(node):
            rows = batch_size(node.layer)
            if rows < 1:
                raise ProgramError(f"{file}: data layer {node.said} gives {rows} rows, expected at least 1")
            parts = [(Segment(node, rows),)] * len(node.tops)
        elif joins_rows(node):
            parts = [sum(below, ())]
        elif splits_rows(node):
            parts = _cut(node, below[0], file)
        else:
            parts = [below[0] if below else ()] * len(node.tops)
        found.update(zip(node.tops, parts, strict=True))
    return found


def count(parts: Sequence[Segment]) -> int:
    """The rows of segments."""
    return sum(part.rows for part in parts)


def shrunk(graph: Graph, known: Mapping[Value, Sequence[Segment]], rows: int) -> Graph:
    """The graph with at most ``rows`` rows from each data layer and the slice points that go with them.

    ``known`` are the :func:`segments` of ``graph``, whose values it has. Where a Slice divides the rows of one data
    layer, it is the graph as it is.
    """
    nodes = []
    for node in graph.nodes:
        layer = copy(node.layer)
        if is_data(node) and layer.type != "Input":
            getattr(layer, _SIZED[layer.type]).batch_size = min(rows, batch_size(layer))
        elif is_data(node):
            for shape in layer.input_param.shape:
                shape.dim[0] = min(rows, shape.dim[0])
        elif splits_rows(node):
            points, at = [], 0
            for top in node.tops:
                if any(part.rows != batch_size(part.node.layer) for part in known[top]):
                    return graph
                at += sum(min(rows, part.rows) for part in known[top])
                points.append(at)
            layer.slice_param.slice_point[:] = points[:-1]
        nodes.append(Node(layer, node.bottoms, node.tops))
    return Graph(graph.name, nodes)


def _cut(node: Node, below: Sequence[Segment], file: Path) -> list[tuple[Segment, ...]]:
    total, parts = count(below), len(node.tops)
    if not total:  # not the images' rows
        return [()] * parts
    points = list(node.layer.slice_param.slice_point)
    if not points and total % parts == 0:
        points = [total * i // parts for i in range(1, parts)]
    if len(points) != parts - 1 or points != sorted(set(points)) or not all(0 < point < total for point in points):
        raise ProgramError(
            f"{file}: layer {node.said} has slice_point {', '.join(map(str, points)) or 'none'} for {parts} parts of "
            f"{total} rows, expected {parts - 1} rising from 1 to {total - 1}: the batch sizes and it do not agree"
        )
    found, bounds = [], [0, *points, total]
    for low, high in pairwise(bounds):
        inside, at = [], 0
        for part in below:
            rows = min(high, at + part.rows) - max(low, at)
            if rows > 0:
                inside.append(Segment(part.node, rows))
            at += part.rows
        found.append(tuple(inside))
    return found
