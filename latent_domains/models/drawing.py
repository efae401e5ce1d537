"""A net as a picture, by graphviz: layers in boxes, coloured so that the paper's parts stand out."""

import html
import json
import shutil
import subprocess
from typing import Any

import pydot
from caffe.proto.caffe_pb2 import LayerParameter, NetParameter
from google.protobuf import text_format

from latent_domains.common.program import ProgramError
from latent_domains.common.wording import one_line
from latent_domains.models.graph import Graph, Node, Value, read_graph

FORMATS = ("svg", "png")

DIRECTIONS = ("TB", "LR")

COLOURS = {
    "data": "#D9D9D9",
    "weights": "#BBD7EE",
    "mda": "#F5A04C",
    "norm": "#FBE0BF",
    "branch": "#C3E6CB",
    "assignment": "#7CC68D",
    "loss": "#EFA7A7",
    "other": "#FFFFFF",
}
"""Fill of a layer by its role."""

_ROLES = {
    **dict.fromkeys(("Data", "DummyData", "HDF5Data", "ImageData", "Input", "MemoryData"), "data"),
    **dict.fromkeys(("Convolution", "Deconvolution", "InnerProduct"), "weights"),
    "MDALayer": "mda",
    **dict.fromkeys(("BatchNorm", "Scale"), "norm"),
    "DomainAssignmentLayer": "assignment",
}
"""Roles by type. A loss has Loss in its type."""

_FOLLOWERS = {"BatchNorm", "Clip", "Dropout", "LRN", "MDALayer", "PReLU", "Pooling", "ReLU", "Scale"}
"""Types that join the box of the layer before them, if nothing else reads what it makes."""

_DETAILED = ("convolution_param", "inner_product_param", "pooling_param", "slice_param", "concat_param")
"""Parameters that are shown as the prototxt has them, but for fillers."""

_OF_PYTHON = ("num_domains", "first", "domain")
"""Parameters of Python layers that are shown."""

_FONT = '"DejaVu Sans,Verdana,Helvetica,sans-serif"'  # the widest first: the text fits its box in all of them

_SPACE = "\N{NO-BREAK SPACE}"  # SVG drops a plain one where a text begins

_LINE = "#444444"

_ASIDE = "#B85C00"


def draw(net: NetParameter, *, image_format: str = "svg", rankdir: str = "TB") -> bytes:
    """A picture of the net: the same bytes for the same net and graphviz."""
    if shutil.which("dot") is None:
        raise ProgramError("found no program dot on PATH: install Debian's package graphviz")
    text = _dot(net, rankdir).to_string()
    done = subprocess.run(["dot", f"-T{image_format}"], input=text.encode(), capture_output=True, check=False)
    if done.returncode:
        raise ProgramError(f"dot ended with {done.returncode}: {one_line(done.stderr.decode(errors='replace'))}")
    return done.stdout


def _dot(net: NetParameter, rankdir: str) -> pydot.Dot:
    found = read_graph(net)
    # Names of layers and blobs may repeat, and hold any character: numbers do not.
    ids: dict[Node | Value, str] = {node: f"layer{i}" for i, node in enumerate(found.nodes)}
    ids |= {value: f"blob{i}" for i, value in enumerate(found.values())}
    branch, boxes = _branch(found), _boxes(found)
    graph = pydot.Dot("net", graph_type="digraph", rankdir=rankdir, bgcolor="white", pad=0.2, ranksep=0.35)
    graph.set_node_defaults(fontname=_FONT, fontsize=11, shape="plain")
    graph.set_edge_defaults(fontname=_FONT, fontsize=9, fontcolor=_LINE, color=_LINE, arrowsize=0.7)
    for box in boxes:
        graph.add_node(pydot.Node(ids[box[0]], label=_table(box, branch)))
        ids |= {node: ids[box[0]] for node in box}
    _connect(graph, found, ids)
    return graph


def _inputs(node: Node) -> list[Value]:
    """The bottoms that arrows lead from."""
    return node.bottoms[: len(node.bottoms) - len(_asides(node))]


def _asides(node: Node) -> list[Value]:
    """The bottoms whose arrows would cross the whole picture: ``w`` of mDA, labels of losses and accuracies."""
    return node.bottoms[1:] if _role(node) in ("mda", "loss") or node.kind == "Accuracy" else []


def _branch(found: Graph) -> set[Node]:
    """The layers that make ``w`` and nothing else, from the stem's end on."""
    assigning = [blob for node in found.nodes if node.kind == "DomainAssignmentLayer" for blob in node.bottoms]
    normalised = [blob for node in found.nodes if node.kind == "MDALayer" for blob in _inputs(node)]
    return set(found.ancestors(assigning, _inputs)) - set(found.ancestors(normalised, _inputs))


def _boxes(found: Graph) -> list[list[Node]]:
    """The layers, each with those that follow it alone."""
    boxes: dict[Node, list[Node]] = {}
    for node in found.nodes:
        inputs = _inputs(node)
        before = found.maker(inputs[0]) if len(inputs) == 1 and node.kind in _FOLLOWERS else None
        alone = before in boxes and len(before.tops) == 1 and found.readers(inputs[0]) == [node]
        boxes[node] = boxes[before] if alone and _role(before) != "data" else []
        boxes[node].append(node)
    return [box for node, box in boxes.items() if box[0] is node]


def _table(box: list[Node], branch: set[Node]) -> str:
    """A box as graphviz's HTML: a row a layer, coloured by its role, asides at its left."""
    rows = []
    columns = 1 + max(len(_asides(node)) for node in box)
    for node in box:
        cells = [f'<TD><FONT COLOR="{_ASIDE}">{_text(blob.name)} →</FONT></TD>' for blob in _asides(node)]
        text = f"<B>{_text(node.name)}</B>{_SPACE}({_text(node.kind)})"
        if details := _details(node):
            text += f'<BR/>{_SPACE}<FONT POINT-SIZE="9">{_text(details)}</FONT>{_SPACE}'  # spaces: as high a line
        role = _role(node)
        colour = COLOURS["branch" if node in branch and role in ("weights", "norm", "other") else role]
        cells.append(f'<TD BGCOLOR="{colour}" COLSPAN="{columns - len(cells)}">{text}</TD>')
        rows.append(f"<TR>{''.join(cells)}</TR>")
    return f'<<TABLE BORDER="0" CELLBORDER="1" CELLSPACING="0" CELLPADDING="4" COLOR="{_LINE}">{"".join(rows)}</TABLE>>'


def _text(text: str) -> str:
    """As graphviz's HTML takes it: never empty, and nothing that cannot be printed."""
    printable = (c if c.isprintable() or c == _SPACE else "\N{REPLACEMENT CHARACTER}" for c in text)
    return html.escape("".join(printable)) or _SPACE


def _role(node: Node) -> str:
    return "loss" if "Loss" in node.kind else _ROLES.get(node.kind, "other")


def _details(node: Node) -> str:
    layer = node.layer
    details = [f"batch: {layer.data_param.batch_size}"] if node.kind == "Data" else []
    for field, value in layer.ListFields():
        if field.name in _DETAILED:
            shown = type(value)()
            shown.CopyFrom(value)
            for filler in {"weight_filler", "bias_filler"} & set(shown.DESCRIPTOR.fields_by_name):
                shown.ClearField(filler)
            details.append(text_format.MessageToString(shown, as_one_line=True).strip())
    details += [f"{key}: {value}" for key, value in _of_python(layer).items() if key in _OF_PYTHON]
    if layer.param and not any(param.lr_mult for param in layer.param) and _role(node) == "weights":
        details.append("frozen")
    details += [f"weight: {weight:g}" for weight in layer.loss_weight]
    return ", ".join(details)


def _of_python(layer: LayerParameter) -> dict[str, Any]:
    try:
        values = json.loads(layer.python_param.param_str)
    except (ValueError, RecursionError):  # none, or another layer's own language
        return {}
    return values if isinstance(values, dict) else {}


def _connect(graph: pydot.Dot, found: Graph, ids: dict[Node | Value, str]) -> None:
    """Arrows from box to box, and to an ellipse for what is read aside."""
    asides = {blob for node in found.nodes for blob in _asides(node)}
    arrows: dict[tuple[str, str, str], None] = {}  # each once, in order
    for blob in found.values():
        makers, readers = found.makers(blob), [node for node in found.nodes if blob in _inputs(node)]
        if blob in asides or (readers and not makers):
            colour = _ASIDE if blob in asides else _LINE
            label = f"<{_text(blob.name)}>"
            graph.add_node(pydot.Node(ids[blob], label=label, shape="ellipse", color=colour, fontcolor=colour))
        for maker in makers if blob in asides else []:
            graph.add_edge(pydot.Edge(ids[maker], ids[blob], color=_ASIDE))
        # Its name tells a Slice's blobs apart; data and labels go where their names are written anyway.
        named = any(len(node.tops) > 1 and _role(node) != "data" for node in makers)
        for source in [ids[maker] for maker in makers] or [ids[blob]]:
            arrows |= {(source, ids[reader], blob.name if named else ""): None for reader in readers}
    for source, target, name in arrows:
        if source != target:
            graph.add_edge(pydot.Edge(source, target, label=f"<{_SPACE}{_text(name)}>"))
