"""Find in the fork's nets which rows (images) a value contains, and the layers that do the work of one mDA layer.

In the training net: a Slice of the rows into sources and targets; for a part of k latent domains, k MultiModalBatchNorm
layers, each with its column of the part's softmax, and an Eltwise sum of them; for a part of one known domain, a
BatchNorm; a Concat of both parts. In the test net, only the targets' part.

Before that, template fields (``%NAME%``) are filled, and layers that stock Caffe lacks become the Python layers of
:mod:`latent_domains.convert.fork.reference`: from then on the net is one that Caffe runs.
"""

import json
import re
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np
from caffe.proto.caffe_pb2 import BatchNormParameter, EltwiseParameter, LayerParameter, LossParameter, NetParameter
from google.protobuf import text_format

from latent_domains.common.files import read_text
from latent_domains.common.program import ProgramError
from latent_domains.models.allowed import DATA, check_allowed
from latent_domains.models.graph import Graph, Node, Value
from latent_domains.models.prototxt import with_round_modes

MODULE = "latent_domains.convert.fork.reference"
MULTIMODAL, ENTROPY = "MultiModalBatchNorm", "EntropyLoss"

_COMMENT = re.compile(r"^\s*#.*$", re.MULTILINE)
_TEMPLATE = re.compile(r"(\w+)\s*:[^:%\n]*%(\w+)%")
"""A template field, after the name of the field whose value it is."""

_OF_TRAINING = ("batch_size", "source", "root_folder", "loss_weight", "slice_point")
"""Fields that only the training net depends on."""

_WHAT = "a prototxt of the authors' fork of Caffe"


def read_template(file: Path, values: Mapping[str, str]) -> tuple[NetParameter, list[str]]:
    """Return the net of ``file`` with the ``values`` of its template fields, and the fields that a training net lacks.

    A field without a value is 1. Fields that Caffe does not know are skipped with a warning. Refuses layers that
    :func:`check_allowed` refuses, values of fields that the file lacks, and a missing value that every net needs.
    """
    try:
        text = _COMMENT.sub("", read_text(file))
    except UnicodeDecodeError as error:
        raise ProgramError(f"{file}: not {_WHAT}: {error}") from error
    net = _parse(file, re.sub(r"%(\w+)%", lambda name: values.get(name[1], "1"), text))
    return net, _missing(file, text, values)


def _missing(file: Path, text: str, given: Collection[str]) -> list[str]:
    """Return the template fields without a value that only a training net needs."""
    found: dict[str, set[str]] = {}
    for field, name in _TEMPLATE.findall(text):
        found.setdefault(name, set()).add(field)
    if odd := [name for name in given if name not in found]:
        raise ProgramError(
            f"--set {', '.join(odd)}: {file} has no such template field; it has {', '.join(sorted(found)) or 'none'}"
        )
    missing = sorted(name for name in found if name not in given and not name.startswith("TEST_"))
    if needed := [name for name in missing if not found[name].issubset(_OF_TRAINING)]:
        raise ProgramError(f"{file}: it needs a value for {', '.join(needed)}: give each with --set NAME=VALUE")
    return missing


def _parse(file: Path, text: str) -> NetParameter:
    """Return the net of a text without template fields, with Python layers in place of the fork's."""
    text = re.sub(r"\bmultimodal_batch_norm_param\b", "batch_norm_param", text)  # the same fields and defaults
    text = with_round_modes(text)
    try:
        try:
            net = text_format.Parse(text, NetParameter())
        except text_format.ParseError as error:
            if "has no field named" not in str(error):
                raise
            net = text_format.Parse(text, NetParameter(), allow_unknown_field=True)
            print(f"warning: {file}:{error}: passed over, and all such fields", file=sys.stderr)
    except (text_format.ParseError, RecursionError) as error:
        raise ProgramError(f"{file}: not {_WHAT}: {error}") from error
    check_allowed(net, file, [*DATA, MULTIMODAL, ENTROPY])
    for layer in net.layer:
        if layer.type == MULTIMODAL:
            _make_python(layer, statistics_param(layer.batch_norm_param))
        elif layer.type == ENTROPY:
            _check_entropy(file, layer)
            _make_python(layer, {})
            if not layer.loss_weight:
                layer.loss_weight.append(1)  # the default of losses in C++, not of Python layers
    return net


def statistics_param(param: BatchNormParameter) -> dict[str, object]:
    """Return the parameters of a normalisation under MDALayer's names."""
    # As they were written: 1e-05, not 9.999999747378752e-06.
    values: dict[str, object] = {
        name: float(str(np.float32(getattr(param, name)))) for name in ("eps", "moving_average_fraction")
    }
    return {**values, "use_global_stats": param.use_global_stats} if param.HasField("use_global_stats") else values


def _check_entropy(file: Path, layer: LayerParameter) -> None:
    mode, axis = layer.loss_param.normalization, layer.softmax_param.axis
    if mode not in (LossParameter.VALID, LossParameter.FULL) or axis != 1:
        raise ProgramError(
            f"{file}: layer {layer.name} (EntropyLoss) has normalization {LossParameter.NormalizationMode.Name(mode)} "
            f"and axis {axis}, expected VALID or FULL, and axis 1"
        )


def _make_python(layer: LayerParameter, param: dict[str, object]) -> None:
    """Make ``layer`` the Python layer of the same name."""
    layer.python_param.module, layer.python_param.layer = MODULE, layer.type
    if param:
        layer.python_param.param_str = json.dumps(param)
    layer.type = "Python"
    for field in ("batch_norm_param", "loss_param", "softmax_param"):
        layer.ClearField(field)


_SIZED = {"ImageData": "image_data_param", "Data": "data_param"}
"""The messages that have a data layer's batch_size."""


def is_data(node: Node) -> bool:
    """Say whether a node is a data layer, with images and labels."""
    return node.kind in (*_SIZED, "Input")


def batch_size(layer: LayerParameter) -> int:
    """Return the rows of a data layer; 0 if it does not set them."""
    if layer.type == "Input":
        shapes = layer.input_param.shape
        return shapes[0].dim[0] if shapes and shapes[0].dim else 0
    return getattr(layer, _SIZED[layer.type]).batch_size


def splits_rows(node: Node) -> bool:
    """Say whether a node is a Slice along the rows."""
    return node.kind == "Slice" and node.layer.slice_param.axis == 0


def joins_rows(node: Node) -> bool:
    """Say whether a node is a Concat along the rows."""
    return node.kind == "Concat" and node.layer.concat_param.axis == 0


def find_rows(graph: Graph, file: Path) -> dict[Value, tuple[Node, ...]]:
    """Return the data layers whose rows each value contains, one batch after the other.

    Refuses a Slice that cuts elsewhere than between two batches.
    """
    found: dict[Value, tuple[Node, ...]] = {}
    for node in graph.nodes:
        below = [found.get(bottom, ()) for bottom in node.bottoms]
        if is_data(node):
            if batch_size(node.layer) < 1:
                raise ProgramError(f"{file}: data layer {node.title} gives no rows, expected at least 1")
            rows: tuple[Node, ...] = (node,)
        else:
            rows = sum(below, ()) if joins_rows(node) else (below or [()])[0]
        parts = _cut(node, rows, file) if splits_rows(node) and rows else [rows] * len(node.tops)
        found.update(zip(node.tops, parts, strict=True))
    return found


def _cut(node: Node, rows: tuple[Node, ...], file: Path) -> list[tuple[Node, ...]]:
    """Return the rows of each top of a Slice."""
    *ends, total = accumulate(batch_size(source.layer) for source in rows)
    parts = len(node.tops)
    points = list(node.layer.slice_param.slice_point) or [total * i // parts for i in range(1, parts)]
    if len(points) != parts - 1 or points != sorted(set(ends).intersection(points)):
        raise ProgramError(
            f"{file}: layer {node.title} has slice_point {', '.join(map(str, points))} for {parts} parts of {total} "
            f"rows, expected {parts - 1} of {', '.join(map(str, ends)) or 'none'}, where batches of data layers end"
        )
    bounds = [0, *(ends.index(point) + 1 for point in points), len(rows)]
    return [rows[start:end] for start, end in pairwise(bounds)]


@dataclass(frozen=True)
class PartNorm:
    """The normalisation of the sources' or the targets' rows."""

    x: Value
    root: Node
    """The layer that makes the result."""
    norms: tuple[Node, ...]
    """The layers that normalise, in the order of their domains."""
    softmax: Node | None
    """The layer that predicts the domains; None for one known domain."""


@dataclass(frozen=True)
class MDAGroup:
    """All the layers that one mDA layer replaces; ``parts`` are sources and targets, or only targets."""

    x: Value
    root: Node
    parts: tuple[PartNorm, ...]

    @property
    def out(self) -> Value:
        """The normalised features."""
        return self.root.tops[0]

    @property
    def norms(self) -> tuple[Node, ...]:
        """The layers that normalise, in the order of the domains."""
        return tuple(norm for part in self.parts for norm in part.norms)


def training_groups(graph: Graph, where: str) -> list[MDAGroup]:
    """Return all groups of a training net, in order.

    ``where`` begins messages: file and phase. Refuses another use of a MultiModalBatchNorm, and groups that do not all
    have the same domains.
    """
    found = []
    for node in graph.nodes:
        parts = [_part(graph, graph.maker(bottom)) for bottom in node.bottoms] if joins_rows(node) else []
        if len(parts) == 2 and None not in parts:
            source = graph.maker(parts[0].x)
            if splits_rows(source) and source.tops == [part.x for part in parts]:
                found.append(MDAGroup(source.bottoms[0], node, tuple(parts)))
    inside = {norm for group in found for norm in group.norms}
    multimodal = [node for node in graph.nodes if node.kind == MULTIMODAL]
    if not multimodal:
        raise ProgramError(f"{where}, no layer is a {MULTIMODAL}: expected a net of the authors' fork")
    if odd := [node.name for node in multimodal if node not in inside]:
        raise ProgramError(
            f"{where}: {MULTIMODAL} layers {', '.join(odd)} are used in another way than the fork's; expected a Slice "
            "of the rows into sources and targets, for each the plain sum (Eltwise) of a layer for each column of one "
            "Softmax, or a BatchNorm, and a Concat of both"
        )
    for group in found:
        for part, first in zip(group.parts, found[0].parts, strict=True):
            if (part.softmax, len(part.norms)) != (first.softmax, len(first.norms)):
                raise ProgramError(
                    f"{where}: the domains of {part.root.title} are not those of {first.root.title}, expected the same "
                    "in every layer"
                )
    return found


def target_groups(graph: Graph, training: list[MDAGroup], where: str) -> list[MDAGroup]:
    """Return the groups of a test net, in order: the targets' parts of the ``training`` net's groups.

    Refuses parts that are missing, or have other layers or another softmax.
    """
    found = {}
    for node in graph.nodes:
        if part := _part(graph, node):
            found[tuple(norm.name for norm in part.norms)] = MDAGroup(part.x, node, (part,))
    groups: list[MDAGroup] = []
    for group in training:
        names = tuple(norm.name for norm in group.parts[-1].norms)
        same = names in found and all(found[names].parts[0].softmax is other.parts[0].softmax for other in groups)
        if not same:
            raise ProgramError(
                f"{where}: found no layers {', '.join(names)} that normalise the targets as {group.root.title} does in "
                "the TRAIN phase, expected them in this order and with the domains of the other layers"
            )
        groups.append(found[names])
    return groups


def _part(graph: Graph, root: Node | None) -> PartNorm | None:
    """Return the normalisation that ends in ``root``: a sum, one MultiModalBatchNorm, or a BatchNorm; else None."""
    if root is None or root.kind not in ("BatchNorm", "Eltwise", MULTIMODAL):
        return None
    if root.kind == "BatchNorm":
        return PartNorm(root.bottoms[0], root, (root,), None)
    norms = [root] if root.kind == MULTIMODAL else [graph.maker(bottom) for bottom in root.bottoms]
    param = root.layer.eltwise_param
    is_sum = param.operation == EltwiseParameter.SUM and all(value == 1 for value in param.coeff)
    if not is_sum or any(norm.kind != MULTIMODAL or len(norm.bottoms) != 2 for norm in norms):
        return None
    columns = [_column(graph, norm.bottoms[1]) for norm in norms]
    by_column = {column: norm for (_, column, _), norm in zip(columns, norms, strict=True)}
    softmax, _, width = columns[0]
    one = len({norm.bottoms[0] for norm in norms}) == len({softmax for softmax, _, _ in columns}) == 1
    if softmax is None or not one or sorted(by_column) != list(range(width)):
        return None
    return PartNorm(norms[0].bottoms[0], root, tuple(by_column[column] for column in range(width)), softmax)


def _column(graph: Graph, w: Value) -> tuple[Node | None, int, int]:
    """Return the softmax in which a domain's weights are a column, the column, and the number of its columns.

    The softmax is None for weights that are not from one.
    """
    node, column, width = graph.maker(w), 0, 1
    if node.kind == "Slice":
        column, width = node.tops.index(w), len(node.tops)
        points = list(node.layer.slice_param.slice_point)
        single = node.layer.slice_param.axis == 1 and points in ([], list(range(1, width)))
        node = graph.maker(node.bottoms[0]) if single else node
    return (node if node.kind == "Softmax" and node.layer.softmax_param.axis == 1 else None), column, width
