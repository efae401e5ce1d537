"""A net as a picture: Caffe's description of the layers, laid out so that the paper's parts stand out."""

import html
import json
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import caffe.draw
import pydot
from caffe.proto import caffe_pb2
from caffe.proto.caffe_pb2 import LayerParameter, NetParameter

from latent_domains.common.program import ProgramError
from latent_domains.models import prototxt

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


def read_net(path: Path) -> NetParameter:
    """Parse a prototxt. Raises ProgramError naming the file if it is not a net's."""
    net = prototxt.read(path, NetParameter(), "a net's prototxt")
    if not net.layer:
        raise ProgramError(f"{path}: found no layer {{ … }}, expected a net's prototxt")
    return net


def draw(net: NetParameter, *, image_format: str = "svg", rankdir: str = "TB", phase: int | None = None) -> bytes:
    """A picture of the net: the same bytes for the same net and graphviz."""
    if shutil.which("dot") is None:
        raise ProgramError("found no program dot on PATH: install Debian's package graphviz")
    text = make_graph(net, rankdir=rankdir, phase=phase).to_string()
    done = subprocess.run(["dot", f"-T{image_format}"], input=text.encode(), capture_output=True, check=False)
    if done.returncode:
        raise ProgramError(f"dot ended with {done.returncode}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


def make_graph(net: NetParameter, *, rankdir: str = "TB", phase: int | None = None) -> pydot.Dot:
    """The graph that ``draw`` renders, with the layers of one phase or, for None, of all."""
    found = _read_graph(net, phase)
    branch = _branch(found)
    boxes = _boxes(found)
    graph = pydot.Dot(
        "net", graph_type="digraph", rankdir=rankdir, bgcolor="white", pad=0.2, nodesep=0.35, ranksep=0.35
    )
    graph.set_node_defaults(fontname=_quoted(_FONT), fontsize=11, shape="plain")
    graph.set_edge_defaults(fontname=_quoted(_FONT), fontsize=9, fontcolor=_LINE, color=_LINE, arrowsize=0.7)
    for box in boxes:
        graph.add_node(pydot.Node(box[0].name, label=_table(found, box, branch)))
    _connect(graph, found, boxes)
    return graph


@dataclass
class _Node:
    """A layer, Caffe's description of it, and numbers of the blobs that it takes and makes."""

    name: str  # in the graph
    layer: LayerParameter
    title: str  # (Pooling MAX)
    details: list[str]  # kernel size: 3
    bottoms: list[int] = field(default_factory=list)
    tops: list[int] = field(default_factory=list)

    @property
    def type(self) -> str:
        """The layer's type, a Python layer's class."""
        return self.layer.python_param.layer or self.layer.type

    @property
    def inputs(self) -> list[int]:
        """The bottoms that arrows lead from."""
        return self.bottoms[: len(self.bottoms) - len(self.asides)]

    @property
    def asides(self) -> list[int]:
        """The bottoms that would cross the whole picture: ``w`` of mDA, labels of losses and accuracies."""
        return self.bottoms[1:] if _role(self) in ("mda", "loss", "accuracy") else []


@dataclass
class _Graph:
    """The layers of a phase and the names of all blobs."""

    nodes: list[_Node]
    blobs: list[str]

    def makers(self, blob: int) -> list[_Node]:
        return [node for node in self.nodes if blob in node.tops]

    def takers(self, blob: int) -> list[_Node]:
        return [node for node in self.nodes if blob in node.bottoms]

    def above(self, blobs: Iterable[int]) -> set[str]:
        """Names of the layers that these blobs come from, but for those that only asides come from."""
        found: set[str] = set()
        waiting = list(blobs)
        while waiting:
            for node in self.makers(waiting.pop()):
                if node.name not in found:
                    found.add(node.name)
                    waiting += node.inputs
        return found


def _read_graph(net: NetParameter, phase: int | None) -> _Graph:
    """What Caffe's draw.py finds in the net.

    It tells layers and blobs apart by what it writes on them, so it is given numbers for names: names may repeat, hold
    any character, and stand for several blobs where layers work in place.
    """
    numbered = NetParameter()
    layers: dict[str, LayerParameter] = {}
    blobs: list[str] = []
    current: dict[str, int] = {}

    def number(blob: str, *, new: bool = False) -> str:
        if new or blob not in current:
            current[blob] = len(blobs)
            blobs.append(blob)
        return f"blob{current[blob]}"

    for layer in (layer for layer in net.layer if phase is None or _in_phase(layer, phase)):
        copy = numbered.layer.add()
        copy.CopyFrom(layer)
        copy.name = f"layer{len(layers)}"
        copy.type = layer.python_param.layer or layer.type
        copy.bottom[:] = [number(blob) for blob in layer.bottom]
        copy.top[:] = [number(blob, new=blob in layer.bottom) for blob in layer.top]
        layers[copy.name] = layer
    if not layers:
        raise ProgramError(f"{net.name or 'the net'}: found no layer of this phase")
    drawn = caffe.draw.get_pydot_graph(numbered, "LR")  # LR: a line for each thing that it says of a layer
    nodes: dict[str, _Node] = {}
    for node in drawn.get_nodes():
        name, *description = node.get_name().strip('"').split(r"\n")
        if name in layers:
            title, *details = description
            nodes[name] = _Node(name, layers[name], title, details)
    for edge in drawn.get_edges():
        source, destination = (end.strip('"').split(r"\n")[0] for end in (edge.get_source(), edge.get_destination()))
        if source in nodes:
            nodes[source].tops.append(int(destination.removeprefix("blob")))
        else:
            nodes[destination].bottoms.append(int(source.removeprefix("blob")))
    return _Graph(list(nodes.values()), blobs)


def _in_phase(layer: LayerParameter, phase: int) -> bool:
    """Whether Caffe would have the layer in this phase, as far as that is the phase's doing."""
    if layer.include:
        return any(rule.phase == phase or not rule.HasField("phase") for rule in layer.include)
    return not any(rule.phase == phase and rule.HasField("phase") for rule in layer.exclude)


def _branch(found: _Graph) -> set[str]:
    """Names of the layers that make ``w`` and nothing else, from the stem's end on."""
    assignments = [node for node in found.nodes if node.type == "DomainAssignmentLayer"]
    normalised = [blob for node in found.nodes if node.type == "MDALayer" for blob in node.inputs]
    return found.above(blob for node in assignments for blob in node.bottoms) - found.above(normalised)


def _boxes(found: _Graph) -> list[list[_Node]]:
    """The layers, each with those that follow it alone."""
    boxes: dict[str, list[_Node]] = {}
    for node in found.nodes:
        makers = found.makers(node.inputs[0]) if len(node.inputs) == 1 else []
        if (
            node.type in _FOLLOWERS
            and len(makers) == 1
            and makers[0].name in boxes  # it is before, as Caffe demands
            and len(makers[0].tops) == 1
            and found.takers(node.inputs[0]) == [node]
            and _role(makers[0]) != "data"
        ):
            boxes[node.name] = boxes[makers[0].name]
            boxes[node.name].append(node)
        else:
            boxes[node.name] = [node]
    return [box for name, box in boxes.items() if box[0].name == name]


def _table(found: _Graph, box: list[_Node], branch: set[str]) -> str:
    """A box as graphviz's HTML: a row a layer, coloured by its role, asides at its left."""
    rows = []
    columns = 1 + max(len(node.asides) for node in box)
    for node in box:
        cells = [f'<TD><FONT COLOR="{_ASIDE}">{html.escape(found.blobs[blob])} →</FONT></TD>' for blob in node.asides]
        details = html.escape(", ".join(_details(node)))
        text = f"<B>{html.escape(node.layer.name)}</B>{_SPACE}{html.escape(node.title)}"
        if details:
            text += f'<BR/>{_SPACE}<FONT POINT-SIZE="9">{details}</FONT>{_SPACE}'  # spaces: as high a line
        role = _role(node)
        colour = COLOURS["branch" if node.name in branch and role in ("weights", "norm", "other") else role]
        cells.append(f'<TD BGCOLOR="{colour}" COLSPAN="{columns - len(cells)}">{text}</TD>')
        rows.append(f"<TR>{''.join(cells)}</TR>")
    return f'<<TABLE BORDER="0" CELLBORDER="1" CELLSPACING="0" CELLPADDING="4" COLOR="{_LINE}">{"".join(rows)}</TABLE>>'


def _role(node: _Node) -> str:
    return "loss" if "Loss" in node.type else _ROLES.get(node.type, "other")


def _details(node: _Node) -> list[str]:
    """What Caffe's draw.py says of the layer and of what it makes, and what it leaves out."""
    layer = node.layer
    made = caffe.draw.get_edge_label(layer).strip('"')
    details = ["global"] if layer.pooling_param.global_pooling else list(node.details)
    if made:
        details.append(made.lower() if node.type == "Data" else f"outputs: {made}")
    details += [f"{key}: {value}" for key, value in _parameters(layer).items() if key in _SHOWN_PARAMETERS]
    if layer.param and not any(param.lr_mult for param in layer.param) and _role(node) == "weights":
        details.append("frozen")
    details += [f"weight: {weight:g}" for weight in layer.loss_weight]
    return details


def _parameters(layer: LayerParameter) -> dict[str, Any]:
    try:
        values = json.loads(layer.python_param.param_str)
    except ValueError:  # none, or another layer's own language
        return {}
    return values if isinstance(values, dict) else {}


def _connect(graph: pydot.Dot, found: _Graph, boxes: list[list[_Node]]) -> None:
    """Arrows from box to box, and to an ellipse for what is taken aside."""
    box_of = {node.name: box[0].name for box in boxes for node in box}
    asides = {blob for node in found.nodes for blob in node.asides}
    arrows: dict[tuple[str, str, str], None] = {}  # each once, in order
    for blob, name in enumerate(found.blobs):
        makers, takers = found.makers(blob), [node for node in found.nodes if blob in node.inputs]
        if blob in asides or (takers and not makers):
            colour = _ASIDE if blob in asides else _LINE
            size = {"width": 0.4, "height": 0.3, "margin": '"0.05,0.03"'}
            graph.add_node(
                pydot.Node(f"blob{blob}", label=_quoted(name), shape="ellipse", color=colour, fontcolor=colour, **size)
            )
        for maker in makers if blob in asides else []:
            graph.add_edge(pydot.Edge(box_of[maker.name], f"blob{blob}", color=_ASIDE))
        # Its name tells a Slice's blobs apart; data and labels go where their names are written anyway.
        label = f"{_SPACE}{name}" if any(len(node.tops) > 1 and _role(node) != "data" for node in makers) else ""
        for source in [box_of[maker.name] for maker in makers] or [f"blob{blob}"]:
            for target in (box_of[taker.name] for taker in takers):
                if target != source:
                    arrows[source, target, label] = None
    for source, target, label in arrows:
        graph.add_edge(pydot.Edge(source, target, label=_quoted(label)))


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
