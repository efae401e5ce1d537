"""A net as a picture: Caffe's description of the layers, laid out so that the paper's parts stand out."""

import html
import json
import shutil
import subprocess
from collections.abc import Mapping
from typing import Any

import caffe.draw
import pydot
from caffe.proto import caffe_pb2
from caffe.proto.caffe_pb2 import LayerParameter, NetParameter
from google.protobuf.message import Message

from latent_domains.common.program import ProgramError
from latent_domains.common.wording import by, one_line
from latent_domains.models.graph import Graph, Node, Value, copy, read_graph
from latent_domains.models.windows import pair

FORMATS = ("svg", "png")

DIRECTIONS = ("TB", "LR")

PHASES = {"train": caffe_pb2.TRAIN, "test": caffe_pb2.TEST}

COLOURS = {
    "data": "#D9D9D9",
    "weights": "#BBD7EE",
    "mda": "#F5A04C",
    "norm": "#FBE0BF",
    "branch": "#C3E6CB",
    "assignment": "#7CC68D",
    "loss": "#EFA7A7",
    "accuracy": "#FFFFFF",
    "other": "#FFFFFF",
}
"""Fill of a layer by its role."""

_ROLES = {
    **dict.fromkeys(("Data", "DummyData", "HDF5Data", "ImageData", "Input", "MemoryData"), "data"),
    **dict.fromkeys(("Convolution", "Deconvolution", "InnerProduct"), "weights"),
    "MDALayer": "mda",
    **dict.fromkeys(("BatchNorm", "Scale"), "norm"),
    "DomainAssignmentLayer": "assignment",
    "Accuracy": "accuracy",
}
"""Roles by type. A loss has Loss in its type; the branch is where it is, not what."""

_FOLLOWERS = {"BatchNorm", "Dropout", "LRN", "MDALayer", "PReLU", "Pooling", "ReLU", "Scale"}
"""Types that join the box of the layer before them, if nothing else takes what it makes."""

_SHOWN_PARAMETERS = ("num_domains", "first", "domain")
"""Of Python layers; every mDA layer of a net has the same moving_average_fraction."""

_FONT = "DejaVu Sans,Verdana,Helvetica,sans-serif"  # the widest first: the text fits its box in all of them

_SPACE = "\N{NO-BREAK SPACE}"  # SVG drops a plain one where a text begins

_LINE = "#444444"

_ASIDE = "#B85C00"


def draw(net: NetParameter, *, image_format: str = "svg", rankdir: str = "TB", phase: int | None = None) -> bytes:
    """A picture of the net: the same bytes for the same net and graphviz."""
    if shutil.which("dot") is None:
        raise ProgramError("found no program dot on PATH: install Debian's package graphviz")
    text = make_graph(net, rankdir=rankdir, phase=phase).to_string()
    done = subprocess.run(["dot", f"-T{image_format}"], input=text.encode(), capture_output=True, check=False)
    if done.returncode:
        said = one_line(done.stderr.decode(errors="replace"))
        raise ProgramError(f"dot ended with {done.returncode}: {said}")
    return done.stdout


def make_graph(net: NetParameter, *, rankdir: str = "TB", phase: int | None = None) -> pydot.Dot:
    """The graph that ``draw`` renders, with the layers of one phase or, for None, of all."""
    layers = [layer for layer in net.layer if phase is None or _in_phase(layer, phase)]
    if not layers:
        raise ProgramError(f"{net.name or 'the net'}: found no layer of this phase")
    found = read_graph(NetParameter(layer=layers))
    # Names of layers and blobs may repeat and hold any character, and blobs stand for several values: numbers do not.
    ids: dict[Node | Value, str] = {node: f"layer{i}" for i, node in enumerate(found.nodes)}
    ids.update({value: f"blob{i}" for i, value in enumerate(found.values())})
    branch = _branch(found)
    boxes = _boxes(found)
    graph = pydot.Dot(
        "net", graph_type="digraph", rankdir=rankdir, bgcolor="white", pad=0.2, nodesep=0.35, ranksep=0.35
    )
    graph.set_node_defaults(fontname=_quoted(_FONT), fontsize=11, shape="plain")
    graph.set_edge_defaults(fontname=_quoted(_FONT), fontsize=9, fontcolor=_LINE, color=_LINE, arrowsize=0.7)
    for box in boxes:
        graph.add_node(pydot.Node(ids[box[0]], label=_table(box, branch)))
    _connect(graph, found, boxes, ids)
    return graph


def _inputs(node: Node) -> list[Value]:
    """The bottoms that arrows lead from."""
    return node.bottoms[: len(node.bottoms) - len(_asides(node))]


def _asides(node: Node) -> list[Value]:
    """The bottoms that would cross the whole picture: ``w`` of mDA, labels of losses and accuracies."""
    return node.bottoms[1:] if _role(node) in ("mda", "loss", "accuracy") else []


def _in_phase(layer: LayerParameter, phase: int) -> bool:
    """Whether Caffe would have the layer in this phase, as far as that is the phase's doing."""
    if layer.include:
        return any(rule.phase == phase or not rule.HasField("phase") for rule in layer.include)
    return not any(rule.phase == phase and rule.HasField("phase") for rule in layer.exclude)


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
        makers = found.makers(inputs[0]) if len(inputs) == 1 else []
        if (
            node.kind in _FOLLOWERS
            and len(makers) == 1
            and makers[0] in boxes  # it is before, as Caffe demands
            and len(makers[0].tops) == 1
            and found.readers(inputs[0]) == [node]
            and _role(makers[0]) != "data"
        ):
            boxes[node] = boxes[makers[0]]
            boxes[node].append(node)
        else:
            boxes[node] = [node]
    return [box for node, box in boxes.items() if box[0] is node]


def _table(box: list[Node], branch: set[Node]) -> str:
    """A box as graphviz's HTML: a row a layer, coloured by its role, asides at its left."""
    rows = []
    columns = 1 + max(len(_asides(node)) for node in box)
    for node in box:
        cells = [f'<TD><FONT COLOR="{_ASIDE}">{_text(blob.name)} →</FONT></TD>' for blob in _asides(node)]
        title, details = _described(node)
        text = f"<B>{_text(node.name)}</B>{_SPACE}{_text(title)}"
        if details:
            text += f'<BR/>{_SPACE}<FONT POINT-SIZE="9">{_text(details)}</FONT>{_SPACE}'  # spaces: as high a line
        role = _role(node)
        colour = COLOURS["branch" if node in branch and role in ("weights", "norm", "other") else role]
        cells.append(f'<TD BGCOLOR="{colour}" COLSPAN="{columns - len(cells)}">{text}</TD>')
        rows.append(f"<TR>{''.join(cells)}</TR>")
    return f'<<TABLE BORDER="0" CELLBORDER="1" CELLSPACING="0" CELLPADDING="4" COLOR="{_LINE}">{"".join(rows)}</TABLE>>'


def _text(text: str) -> str:
    """As graphviz's HTML takes it: never empty, and nothing that cannot be printed."""
    return html.escape(_printable(text)) or _SPACE


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() or c == _SPACE else "\N{REPLACEMENT CHARACTER}" for c in text)


def _role(node: Node) -> str:
    return "loss" if "Loss" in node.kind else _ROLES.get(node.kind, "other")


def _described(node: Node) -> tuple[str, str]:
    """A layer's type, as (Pooling MAX), and its details: what Caffe's draw.py says of it, and what that leaves out."""
    layer = node.layer
    shown = copy(layer, "")
    shown.type = node.kind
    # LR: a line for each thing that it says of a layer, the name first. Of windows it knows one side alone.
    _, title, *_ = caffe.draw.get_layer_label(shown, "LR").strip('"').split(r"\n")
    details = _windows(node)
    if made := caffe.draw.get_edge_label(layer).strip('"'):
        details.append(made.lower() if node.kind == "Data" else f"outputs: {made}")
    details += [f"{key}: {value}" for key, value in _parameters(layer).items() if key in _SHOWN_PARAMETERS]
    if layer.param and not any(param.lr_mult for param in layer.param) and _role(node) == "weights":
        details.append("frozen")
    details += [f"weight: {weight:g}" for weight in layer.loss_weight]
    return title, ", ".join(details)


def _windows(node: Node) -> list[str]:
    """What is to be said of the windows of a convolution or a pool; dilation and group where they are not 1."""
    if node.kind == "Pooling":
        param = node.layer.pooling_param
        return ["global"] if param.global_pooling else _sides(param)
    if node.kind not in ("Convolution", "Deconvolution"):
        return []
    param = node.layer.convolution_param
    details = _sides(param)
    if getattr(param, "pad_end", ()):  # which stock Caffe lacks
        details.append(f"pad behind: {_size(param, 'pad_end', 'pad_end', 0)}")
    if (dilation := _size(param, "dilation", "dilation", 1)) != "1":
        details.append(f"dilation: {dilation}")
    if param.group != 1:
        details.append(f"group: {param.group}")
    return details


def _sides(param: Message) -> list[str]:
    return [
        f"kernel size: {_size(param, 'kernel', 'kernel_size', 1)}",
        f"stride: {_size(param, 'stride', 'stride', 1)}",
        f"pad: {_size(param, 'pad', 'pad', 0)}",
    ]


def _size(param: Message, stem: str, field: str, default: int) -> str:
    """Height × width of a kernel, stride, pad or dilation; one number where they are equal."""
    given = getattr(param, field)
    if not isinstance(given, int) and len(given) > 2:  # of volumes
        return by(given)
    height, width = pair(param, stem, field, default)
    return str(height) if height == width else by((height, width))


def _parameters(layer: LayerParameter) -> dict[str, Any]:
    try:
        values = json.loads(layer.python_param.param_str)
    except (ValueError, RecursionError):  # none, or another layer's own language
        return {}
    return values if isinstance(values, dict) else {}


def _connect(graph: pydot.Dot, found: Graph, boxes: list[list[Node]], ids: Mapping[Node | Value, str]) -> None:
    """Arrows from box to box, and to an ellipse for what is taken aside."""
    box_of = {node: ids[box[0]] for box in boxes for node in box}
    asides = {blob for node in found.nodes for blob in _asides(node)}
    arrows: dict[tuple[str, str, str], None] = {}  # each once, in order
    for blob in found.values():
        makers, takers = found.makers(blob), [node for node in found.nodes if blob in _inputs(node)]
        if blob in asides or (takers and not makers):
            colour = _ASIDE if blob in asides else _LINE
            size = {"width": 0.4, "height": 0.3, "margin": '"0.05,0.03"'}
            graph.add_node(
                pydot.Node(ids[blob], label=_quoted(blob.name), shape="ellipse", color=colour, fontcolor=colour, **size)
            )
        for maker in makers if blob in asides else []:
            graph.add_edge(pydot.Edge(box_of[maker], ids[blob], color=_ASIDE))
        # Its name tells a Slice's blobs apart; data and labels go where their names are written anyway.
        label = f"{_SPACE}{blob.name}" if any(len(node.tops) > 1 and _role(node) != "data" for node in makers) else ""
        for source in [box_of[maker] for maker in makers] or [ids[blob]]:
            for target in (box_of[taker] for taker in takers):
                if target != source:
                    arrows[source, target, label] = None
    for source, target, label in arrows:
        graph.add_edge(pydot.Edge(source, target, label=_quoted(label)))


def _quoted(text: str) -> str:
    escaped = _printable(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
