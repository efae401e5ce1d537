"""A net as a picture, by graphviz: layers in boxes, coloured so that the paper's parts stand out."""

import html
import re
import shutil
import subprocess

import pydot
from caffe.proto.caffe_pb2 import NetParameter
from google.protobuf import text_format

from latent_domains.common.program import ProgramError
from latent_domains.common.wording import one_line
from latent_domains.models.graph import Graph, Node, Value, read_graph

FORMATS = ("svg", "png")

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
"""Types that share a box with the layer before them, if only they read its top."""

_DETAILED = ("convolution_param", "inner_product_param", "pooling_param", "slice_param", "concat_param")
"""Parameters that are shown as in the prototxt, but without fillers."""

_FONT = '"DejaVu Sans,Verdana,Helvetica,sans-serif"'  # the widest first, so that the text fits its box in any of them

_SPACE = "\N{NO-BREAK SPACE}"  # at the beginning of a text SVG drops a plain space

_LINE = "#444444"

_ASIDE = "#B85C00"


def draw(net: NetParameter, image_format: str = "svg") -> bytes:
    """Return a picture of a net of one phase: the same bytes for the same net and graphviz."""
    if shutil.which("dot") is None:
        raise ProgramError("found no program dot on PATH: install Debian's package graphviz")
    text = _dot(read_graph(net)).to_string()
    done = subprocess.run(["dot", f"-T{image_format}"], input=text.encode(), capture_output=True, check=False)
    if done.returncode:
        raise ProgramError(f"dot ended with {done.returncode}: {one_line(done.stderr.decode(errors='replace'))}")
    return done.stdout


def _dot(net: Graph) -> pydot.Dot:
    """Return the boxes, the arrows between them, and an ellipse for each blob that begins no arrow or has no layer."""
    graph = pydot.Dot("net", graph_type="digraph", rankdir="TB", bgcolor="white", pad=0.2, ranksep=0.35)
    graph.set_node_defaults(fontname=_FONT, fontsize=11, shape="plain")
    graph.set_edge_defaults(fontname=_FONT, fontsize=9, fontcolor=_LINE, color=_LINE, arrowsize=0.7)
    branch, ids = _branch(net), {}
    for box in _boxes(net):
        name = f"layer{net.nodes.index(box[0])}"  # layers' names may repeat, and hold any character
        graph.add_node(pydot.Node(name, label=_table(box, branch)))
        ids |= dict.fromkeys(box, name)
    asides = {blob for node in net.nodes for blob in _asides(node)}
    for i, blob in enumerate(net.values()):
        maker, readers = net.maker(blob), [node for node in net.nodes if blob in _inputs(node)]
        source = ids[maker] if maker else f"blob{i}"
        if blob in asides or maker is None:
            colour = _ASIDE if blob in asides else _LINE
            label = f"<{_text(blob.name)}>"
            graph.add_node(pydot.Node(f"blob{i}", label=label, shape="ellipse", color=colour, fontcolor=colour))
            if maker:
                graph.add_edge(pydot.Edge(source, f"blob{i}", color=_ASIDE))
        # Its name tells a Slice's blobs apart; data and labels go where their names are written anyway.
        named = maker is not None and len(maker.tops) > 1 and _role(maker) != "data"
        for target in dict.fromkeys(ids[reader] for reader in readers):
            if target != source:
                label = f"<{_SPACE}{_text(blob.name if named else '')}>"
                graph.add_edge(pydot.Edge(source, target, label=label))
    return graph


def _inputs(node: Node) -> list[Value]:
    """Return the bottoms that arrows lead from."""
    return node.bottoms[: len(node.bottoms) - len(_asides(node))]


def _asides(node: Node) -> list[Value]:
    """Return the bottoms whose arrows would cross the whole picture: ``w`` of mDA, labels of losses and accuracies."""
    return node.bottoms[1:] if _role(node) in ("mda", "loss") or node.kind == "Accuracy" else []


def _branch(net: Graph) -> set[Node]:
    """Return the layers after the stem that only serve to compute ``w``."""
    assigning = [blob for node in net.nodes if node.kind == "DomainAssignmentLayer" for blob in node.bottoms]
    normalised = [blob for node in net.nodes if node.kind == "MDALayer" for blob in _inputs(node)]
    return set(net.ancestors(assigning, _inputs)) - set(net.ancestors(normalised, _inputs))


def _boxes(net: Graph) -> list[list[Node]]:
    """Return the layers in groups, one per box: a layer, and the followers that alone read it."""
    boxes: dict[Node, list[Node]] = {}
    for node in net.nodes:
        inputs = _inputs(node)
        before = net.maker(inputs[0]) if len(inputs) == 1 and node.kind in _FOLLOWERS else None
        alone = before in boxes and len(before.tops) == 1 and net.readers(inputs[0]) == [node]
        boxes[node] = boxes[before] if alone and _role(before) != "data" else []
        boxes[node].append(node)
    return [box for node, box in boxes.items() if box[0] is node]


def _table(box: list[Node], branch: set[Node]) -> str:
    """Return a box as graphviz's HTML: a row for each layer, coloured by its role, with its asides on the left."""
    rows = []
    columns = 1 + max(len(_asides(node)) for node in box)
    for node in box:
        cells = [f'<TD><FONT COLOR="{_ASIDE}">{_text(blob.name)} →</FONT></TD>' for blob in _asides(node)]
        text = f"<B>{_text(node.name)}</B>{_SPACE}({_text(node.kind)})"
        if details := ", ".join(_details(node)):
            text += f'<BR/>{_SPACE}<FONT POINT-SIZE="9">{_text(details)}</FONT>{_SPACE}'  # spaces: as high a line
        role = _role(node)
        colour = COLOURS["branch" if node in branch and role in ("weights", "norm", "other") else role]
        cells.append(f'<TD BGCOLOR="{colour}" COLSPAN="{columns - len(cells)}">{text}</TD>')
        rows.append(f"<TR>{''.join(cells)}</TR>")
    return f'<<TABLE BORDER="0" CELLBORDER="1" CELLSPACING="0" CELLPADDING="4" COLOR="{_LINE}">{"".join(rows)}</TABLE>>'


def _text(text: str) -> str:
    """Return text for graphviz's HTML, which must not be empty and takes only printable characters."""
    printable = (c if c.isprintable() or c == _SPACE else "\N{REPLACEMENT CHARACTER}" for c in text)
    return html.escape("".join(printable)) or _SPACE


def _role(node: Node) -> str:
    return "loss" if "Loss" in node.kind else _ROLES.get(node.kind, "other")


def _details(node: Node) -> list[str]:
    """Return the text below a layer's name."""
    layer = node.layer
    details = [f"batch: {layer.data_param.batch_size}"] if node.kind == "Data" else []
    for field, value in layer.ListFields():
        if field.name in _DETAILED:
            shown = text_format.MessageToString(value, as_one_line=True)
            details.append(re.sub(r"\w+_filler \{[^}]*\} ?", "", shown).strip())
    numbers = re.findall(r'"(num_domains|first|domain)": (\d+)', layer.python_param.param_str)
    details += [f"{name}: {number}" for name, number in numbers]
    if layer.param and not any(param.lr_mult for param in layer.param) and _role(node) == "weights":
        details.append("frozen")
    return [*details, *(f"weight: {weight:g}" for weight in layer.loss_weight)]
