"""A net as a graph of values, so that layers can be taken out and put in.

In a prototxt a blob's name stands for several arrays where layers work in place. Here each array is a Value of its own,
made by one node and read by any number. Whatever is done to the graph, a Value that stays is the same array: that is
what the folded net is compared by.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from caffe.proto.caffe_pb2 import TRAIN, LayerParameter, NetParameter
from numpy.typing import NDArray

from latent_domains.common.program import ProgramError
from latent_domains.models.model import Model

Array = NDArray[np.float64]

_TRAINING_FIELDS = ("param", "propagate_down", "loss_weight")
"""Of a layer: they mean nothing in a net for tests. (``param`` also shares blobs by name: here each layer has its own.)
"""

_FILLERS = ("weight_filler", "bias_filler", "filler")


@dataclass(eq=False)
class Value:
    """An array between layers: the name of its blob in the net that was read, and its shape there."""

    blob: str
    shape: tuple[int, ...]


@dataclass(eq=False)
class Node:
    """A layer with what it reads, what it makes and its blobs, in double precision."""

    layer: LayerParameter
    bottoms: list[Value]
    tops: list[Value]
    blobs: list[Array] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.layer.name

    @property
    def type(self) -> str:
        return self.layer.type

    @property
    def trains(self) -> bool:
        """Whether the layer itself says that it is one of the TRAIN phase, in whatever net."""
        return self.layer.HasField("phase") and self.layer.phase == TRAIN

    def axis(self, axis: int) -> int:
        """An axis of the first bottom, counted from the front."""
        return axis % len(self.bottoms[0].shape)


@dataclass
class Graph:
    """The nodes of a net, each after those it reads from."""

    nodes: list[Node]
    outputs: set[Value]
    """What nothing read in the net that was read: it stays."""
    names: set[str]
    """Names of layers and blobs, those that are gone too: a new layer gets another one."""
    notes: list[str] = field(default_factory=list)
    """What the user should know."""

    def readers(self, value: Value) -> list[Node]:
        return [node for node in self.nodes if value in node.bottoms]

    def maker(self, value: Value) -> Node:
        return next(node for node in self.nodes if value in node.tops)

    def only_reader(self, value: Value) -> Node | None:
        """The one node that reads ``value``, None if there are several or the value is an output."""
        readers = self.readers(value)
        return readers[0] if len(readers) == 1 and value not in self.outputs else None

    def replace(self, old: Node, new: Iterable[Node]) -> None:
        """Put nodes in the place of one."""
        at = self.nodes.index(old)
        self.nodes[at : at + 1] = new

    def add(
        self,
        name: str,
        kind: str,
        bottoms: Sequence[Value],
        tops: Sequence[Value],
        blobs: Sequence[Array] = (),
        **fields: Any,
    ) -> Node:
        """A node that is not in the graph yet; its tops are called after it, or what their ``blob`` says."""
        layer = LayerParameter(name=name, type=kind, top=[top.blob for top in tops], **fields)
        return Node(layer, list(bottoms), list(tops), list(blobs))

    def fresh(self, name: str) -> str:
        """A name like ``name`` for a new layer or blob."""
        while name in self.names:
            name += "_"
        self.names.add(name)
        return name


def read_graph(model: Model, shapes: Mapping[str, tuple[int, ...]]) -> tuple[Graph, dict[Value, str]]:
    """The graph of a net for tests, whose blobs have ``shapes``; and the values that can be seen in it once it has run.

    Those are the last of each blob's name. Raises ProgramError if a layer holds a number that is not finite.
    """
    nodes, now = [], {}
    names = {layer.name for layer in model.net.layer} | set(shapes)
    for layer in model.net.layer:
        bottoms = [now[name] for name in layer.bottom]
        tops = [Value(name, shapes[name]) for name in layer.top]
        now.update(zip(layer.top, tops, strict=True))
        blobs = [blob.astype(np.float64) for blob in model.blobs.get(layer.name, ())]
        for i, blob in enumerate(blobs):
            if not np.isfinite(blob).all():
                raise ProgramError(f"layer {layer.name}: blob {i} has values that are not finite, expected numbers")
        kept = LayerParameter()
        kept.CopyFrom(layer)
        nodes.append(Node(kept, bottoms, tops, blobs))
    read = {value for node in nodes for value in node.bottoms}
    outputs = {value for node in nodes for value in node.tops} - read
    return Graph(nodes, outputs, names), {value: name for name, value in now.items()}


def write_graph(graph: Graph, name: str) -> tuple[Model, dict[Value, str]]:
    """The model of a graph, without what only training needs; and the values that can be seen in its net.

    A blob is called after the layer that makes it, an output as it was. Layers that worked in place still do where
    nothing else reads what they overwrite. Tops that nothing reads, and that are no outputs, are silenced.
    """
    net, blobs, called = NetParameter(name=name), {}, {}
    seen: dict[str, Value] = {}
    for node in graph.nodes:
        layer = net.layer.add()
        layer.CopyFrom(node.layer)
        del layer.bottom[:], layer.top[:]
        layer.bottom.extend(called[value] for value in node.bottoms)
        for given, value in zip(node.layer.top, node.tops, strict=True):
            top = value.blob if value in graph.outputs else given
            for bottom, before in zip(node.bottoms, node.layer.bottom, strict=False):
                if given == before and graph.only_reader(bottom) is node and value not in graph.outputs:
                    top = called[bottom]
            layer.top.append(top)
            called[value], seen[top] = top, value
        _clear(layer)
        if node.blobs:
            with np.errstate(over="ignore"):  # infinite then, which the proof finds
                blobs[node.name] = [blob.astype(np.float32) for blob in node.blobs]
        for value in node.tops:
            if value not in graph.outputs and not graph.readers(value):
                net.layer.add(name=graph.fresh(f"silence_{called[value]}"), type="Silence", bottom=[called[value]])
    return Model(net, blobs), {value: name for name, value in seen.items()}


def _clear(layer: LayerParameter) -> None:
    for name in _TRAINING_FIELDS:
        layer.ClearField(name)
    if layer.type in ("Data", "DummyData"):  # a filler is what these are about
        return
    for descriptor, value in layer.ListFields():
        if descriptor.message_type is None or descriptor.label == descriptor.LABEL_REPEATED:
            continue
        for name in _FILLERS:
            if name in descriptor.message_type.fields_by_name:
                value.ClearField(name)
