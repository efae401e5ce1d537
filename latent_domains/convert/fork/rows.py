"""How many rows (images) each value of a graph has, and which data layers they come from."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from caffe.proto.caffe_pb2 import LayerParameter

from latent_domains.common.program import ProgramError
from latent_domains.models.graph import Graph, Node, Value

_SIZED = {"ImageData": "image_data_param", "Data": "data_param"}
"""The messages that hold a data layer's batch_size."""

Rows = tuple[tuple[Node, int], ...]
"""The rows of a value: data layers, and how many rows of each follow each other."""


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


def find_rows(graph: Graph, file: Path) -> dict[Value, Rows]:
    """The rows of every value.

    Raises ProgramError if a data layer gives none or a Slice cuts rows that are not there.
    """
    found: dict[Value, Rows] = {}
    for node in graph.nodes:
        below = [found.get(bottom, ()) for bottom in node.bottoms]
        if is_data(node):
            size = batch_size(node.layer)
            if size < 1:
                raise ProgramError(f"{file}: data layer {node.title} gives {size} rows, expected at least 1")
            below = [((node, size),)]
        elif joins_rows(node):
            below = [sum(below, ())]
        parts = _cut(node, below[0], file) if splits_rows(node) else [below[0] if below else ()] * len(node.tops)
        found.update(zip(node.tops, parts, strict=True))
    return found


def count(rows: Rows) -> int:
    """How many rows there are."""
    return sum(size for _, size in rows)


def _cut(node: Node, below: Rows, file: Path) -> Sequence[Rows]:
    """The rows of each top of a Slice."""
    total, parts = count(below), len(node.tops)
    if not total:  # not the images' rows
        return [()] * parts
    points = list(node.layer.slice_param.slice_point)
    if not points and total % parts == 0:
        points = [total * i // parts for i in range(1, parts)]
    bounds = [0, *points, total]
    if len(points) != parts - 1 or any(low >= high for low, high in pairwise(bounds)):
        raise ProgramError(
            f"{file}: layer {node.title} has slice_point {', '.join(map(str, points)) or 'none'} for {parts} parts of "
            f"{total} rows, expected {parts - 1} rising from 1 to {total - 1}: the batch sizes and it do not agree"
        )
    found = []
    for low, high in pairwise(bounds):
        inside, at = [], 0
        for source, size in below:
            if (shared := min(high, at + size) - max(low, at)) > 0:
                inside.append((source, shared))
            at += size
        found.append(tuple(inside))
    return found
