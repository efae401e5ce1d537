"""A net as a graph of values, so that layers can be removed and inserted.

In a prototxt several arrays share a blob's name if layers work in place. Here each array is its own Value: one node
makes it, any number may read it. :meth:`Graph.definition` gives blobs their names again. Changes of the graph do not
change the contents of a remaining Value, so a converted net can be compared with the original Value by Value.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter

import numpy as np
from caffe.proto.caffe_pb2 import LayerParameter, NetParameter
from google.protobuf.message import Message
from numpy.typing import NDArray

from latent_domains.common.program import ProgramError
from latent_domains.models.model import Model

Blob = NDArray[np.floating]
"""A layer's parameters: float32 as in the model, float64 if something was folded into them."""

_TRAINING_FIELDS = ("param", "propagate_down", "loss_weight")
"""Fields of a layer that mean nothing in a net for tests. (``param`` could also make layers share blobs; none do.)"""

_FILLERS = ("weight_filler", "bias_filler", "filler")

_LENDERS = frozenset({"Concat", "DummyData", "Flatten", "Input", "Parameter", "Reshape", "Slice", "Split"})
"""Types whose tops must not be overwritten: inputs and constants, which no pass fills again, and views of a bottom."""


def kind(layer: LayerParameter) -> str:
    """Return the layer's type, a Python layer's class."""
    return (layer.type == "Python" and layer.python_param.layer) or layer.type


@dataclass(eq=False)
class Value:
    """An array between layers: its name, its shape if known, and the value that it overwrites, if any."""

    name: str
    shape: tuple[int, ...] = ()
    over: "Value | None" = None
    """The value that its layer overwrites, if it works in place."""


@dataclass(eq=False)
class Node:
    """A layer, its bottoms and tops, and its parameters. The bottoms and tops in ``layer`` are not used."""

    layer: LayerParameter
    bottoms: list[Value]
    tops: list[Value]
    blobs: list[Blob] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.layer.name

    @property
    def type(self) -> str:
        return self.layer.type

    @property
    def kind(self) -> str:
        return kind(self.layer)

    @property
    def title(self) -> str:
        """The layer's name in messages."""
        return f"{self.name} ({self.kind})"

    @property
    def lends(self) -> bool:
        """Whether its tops use its bottom's memory. (A Slice or Concat with several tops or bottoms copies.)"""
        return self.type in _LENDERS and len(self.bottoms) == 1 and (len(self.tops) == 1 or self.type == "Split")

    def axis(self, axis: int) -> int:
        """Return an axis of the first bottom, counted from the front."""
        return axis % len(self.bottoms[0].shape)


@dataclass(eq=False)
class Graph:
    """The nodes of a net, each after those it reads from."""

    name: str
    nodes: list[Node]
    outputs: set[Value] | None = None
    """The original net's outputs, which are kept. By default these are the values that nothing reads now."""
    names: set[str] = field(default_factory=set)
    """Names of layers and blobs, also of removed ones: no new layer gets one of them."""
    notes: list[str] = field(default_factory=list)
    """Notes for the user."""
    blob_names: Mapping[Value, str] = field(default_factory=dict)
    """The names of blobs that differ from the names of their values."""

    def __post_init__(self) -> None:
        if self.outputs is None:
            read = {value for node in self.nodes for value in node.bottoms}
            self.outputs = {value for node in self.nodes for value in node.tops} - read

    def values(self) -> list[Value]:
        """Return all values, in the order in which they appear."""
        return list(dict.fromkeys(value for node in self.nodes for value in (*node.bottoms, *node.tops)))

    def readers(self, value: Value) -> list[Node]:
        return [node for node in self.nodes if value in node.bottoms]

    def maker(self, value: Value) -> Node | None:
        """Return the node that makes ``value``, None if it comes from outside."""
        return next((node for node in self.nodes if value in node.tops), None)

    def only_reader(self, value: Value) -> Node | None:
        """Return the one node that reads ``value``, None if there are several or the value is an output."""
        readers = self.readers(value)
        return readers[0] if len(readers) == 1 and value not in self.outputs else None

    def ancestors(
        self, values: Iterable[Value], needs: Callable[[Node], Iterable[Value]] = attrgetter("bottoms")
    ) -> list[Node]:
        """Return the nodes that compute ``values``, in order. ``needs`` returns what a node computes from."""
        wanted = set(values)
        found = []
        for node in reversed(self.nodes):
            if wanted.intersection(node.tops):
                wanted.update(needs(node))
                found.append(node)
        return found[::-1]

    def replace(self, old: Node, new: Iterable[Node]) -> None:
        """Replace one node by ``new`` ones."""
        at = self.nodes.index(old)
        self.nodes[at : at + 1] = new

    def absorb(self, node: Node) -> None:
        """Remove a node. The layer before it makes the node's top now, under its own name unless the top is an output.

        If the previous layer only returns a view, a later in-place layer gets its own blob.
        """
        old, new = node.bottoms[0], node.tops[0]
        maker = self.maker(old)
        if new.over is not old and maker.type in _LENDERS:
            for value in self.values():
                if value.over is new:
                    value.over = None
        maker.tops[maker.tops.index(old)] = new
        new.over = old.over
        if new not in self.outputs:
            new.name = old.name
        self.nodes.remove(node)

    def remove_unread(self) -> None:
        """Remove nodes whose tops are neither read nor outputs, and then those that only these read."""
        for node in reversed(list(self.nodes)):
            if node.tops and not any(top in self.outputs or self.readers(top) for top in node.tops):
                self.nodes.remove(node)

    def silence_unread(self) -> None:
        """Add a Silence for each value that is neither read nor an output: Caffe would make it an output."""
        for node in list(self.nodes):
            unread = [top for top in node.tops if top not in self.outputs and not self.readers(top)]
            layers = [LayerParameter(name=self.fresh(f"silence_{top.name}"), type="Silence") for top in unread]
            self.replace(node, [node, *(Node(layer, [top], []) for layer, top in zip(layers, unread, strict=True))])

    def fresh(self, name: str) -> str:
        """Return a name like ``name`` for a new layer or blob."""
        while name in self.names:
            name += "_"
        self.names.add(name)
        return name

    def check_made(self, where: str) -> None:
        """Raise ProgramError, beginning with ``where``, for the first layer that reads a value before it is made."""
        made: set[Value] = set()
        for node in self.nodes:
            for bottom in node.bottoms:
                if bottom not in made:
                    raise ProgramError(
                        f"{where}, layer {node.title} reads {bottom.name}, which no layer before it makes"
                    )
            made.update(node.tops)

    def definition(self) -> tuple[NetParameter, dict[Value, str]]:
        """Return the net, and the name of each value's blob: the one in ``blob_names``, else the value's own.

        A layer works in place if it did before, if no other layer reads the value that it overwrites, and if
        ``blob_names`` allow it.
        """
        names = self.blob_names
        blobs: dict[Value, str] = {}
        net = NetParameter(name=self.name)
        for node in self.nodes:
            layer = net.layer.add()
            layer.CopyFrom(node.layer)
            layer.bottom[:] = [blobs[bottom] for bottom in node.bottoms]
            del layer.top[:]
            for top in node.tops:
                in_place = top.over in node.bottoms and self.readers(top.over) == [node]
                if in_place and names.get(top, blobs[top.over]) == blobs[top.over]:
                    blobs[top] = blobs[top.over]
                else:
                    blobs[top] = _free(names.get(top, top.name), node.name, set(blobs.values()))
                layer.top.append(blobs[top])
        return net, blobs


def read_graph(net: NetParameter, shapes: Mapping[str, tuple[int, ...]] | None = None) -> Graph:
    """Return the graph of a net of one phase, with the ``shapes`` of its blobs.

    A blob that no layer makes has no maker.
    """
    shapes = shapes or {}
    now: dict[str, Value] = {}
    nodes = []
    for layer in net.layer:
        bottoms = [now.setdefault(name, Value(name, shapes.get(name, ()))) for name in layer.bottom]
        tops = []
        for name in layer.top:
            now[name] = Value(name, shapes.get(name, ()), now[name] if name in layer.bottom else None)
            tops.append(now[name])
        nodes.append(Node(layer, bottoms, tops))
    return Graph(net.name, nodes, names={layer.name for layer in net.layer} | set(now))


def of_model(model: Model, shapes: Mapping[str, tuple[int, ...]]) -> Graph:
    """Return the graph of a net for tests. It shares the model's parameters: copies may be gigabytes."""
    net = NetParameter()
    net.CopyFrom(model.net)  # the graph's layers may be changed
    graph = read_graph(net, shapes)
    left = dict(model.blobs)
    for node in graph.nodes:
        node.blobs = list(left.pop(node.name, ()))  # if layers share a name, the first gets them, as in Caffe
    return graph


def to_model(graph: Graph) -> tuple[Model, dict[Value, str]]:
    """Return the graph's model, without what only training needs, and each value's blob. Outputs keep their names."""
    graph.silence_unread()
    graph.blob_names = {value: value.name for value in graph.outputs}
    net, blobs = graph.definition()
    for layer in net.layer:
        _clear(layer)
    with np.errstate(over="ignore"):  # such a number becomes infinite, and verification finds it
        values = {
            node.name: [blob.astype(np.float32, copy=False) for blob in node.blobs]
            for node in graph.nodes
            if node.blobs
        }
    return Model(net, values), blobs


def comparable_blobs(graph: Graph, blobs: Mapping[Value, str]) -> dict[Value, str]:
    """Return :func:`blobs_after_forward` without values of which a layer overwrites a view in place."""
    found = blobs_after_forward(blobs)
    for node in graph.nodes:
        for value in (top.over for top in node.tops if top.over and blobs.get(top.over) == blobs[top]):
            while (maker := graph.maker(value)) is not None and maker.lends:
                (value,) = maker.bottoms
                found.pop(value, None)
    return found


def blobs_after_forward(blobs: Mapping[Value, str]) -> dict[Value, str]:
    """Return the values that are still in their blobs after a forward pass; ``blobs`` are in the order of the pass."""
    last = {name: value for value, name in blobs.items()}
    return {value: name for name, value in last.items()}


def copy(layer: LayerParameter, name: str | None = None) -> LayerParameter:
    """Return a copy of a layer's parameters, to be changed; ``name`` is its new name."""
    new = LayerParameter()
    new.CopyFrom(layer)
    if name is not None:
        new.name = name
    return new


def _free(wanted: str, layer: str, taken: set[str]) -> str:
    """Return ``wanted``, the layer's name, or one with a number: the first that is free."""
    names = [wanted, layer, *(f"{layer}_{i}" for i in range(2, len(taken) + 3))]
    return next(name for name in names if name not in taken)


def _clear(layer: LayerParameter) -> None:
    for name in _TRAINING_FIELDS:
        layer.ClearField(name)
    if layer.type in ("Data", "DummyData"):  # their fillers are their data
        return
    for descriptor, value in layer.ListFields():
        if descriptor.message_type is None or descriptor.label == descriptor.LABEL_REPEATED:
            continue
        for name in _FILLERS:
            if name in descriptor.message_type.fields_by_name:
                value.ClearField(name)


def pair(param: Message, stem: str, field: str, default: int) -> tuple[int, int]:
    """Return height and width of a kernel, stride, pad or dilation: STEM_h and STEM_w, or ``field`` for both.

    In convolutions ``field`` is repeated: it has no value (``default``), one for both, or two.
    """
    fields = param.DESCRIPTOR.fields_by_name
    if f"{stem}_h" in fields and (param.HasField(f"{stem}_h") or param.HasField(f"{stem}_w")):
        return getattr(param, f"{stem}_h"), getattr(param, f"{stem}_w")
    value = getattr(param, field)
    if isinstance(value, int):
        return value, value
    height, width = (list(value) or [default]) * (1 if len(value) == 2 else 2)
    return height, width


def end_pads(param: Message) -> tuple[int, int]:
    """Return a convolution's padding below and right: ``pad_end`` (not in stock Caffe) or else as above and left."""
    if getattr(param, "pad_end", ()):
        return pair(param, "pad_end", "pad_end", 0)
    return pair(param, "pad", "pad", 0)
