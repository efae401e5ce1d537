"""A net as a graph of values.

Caffe names blobs, and a layer that works in place gives an old blob a new value. Here each value is an object of its
own, so layers can be taken out and put in without a thought for names; :meth:`Graph.definition` chooses them again.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from caffe.proto.caffe_pb2 import LayerParameter, NetParameter

from latent_domains.common.program import ProgramError
from latent_domains.convert.fork.messages import kind


@dataclass(eq=False)
class Value:
    """What a layer makes. ``over`` is the value whose place it takes, if its layer works in place."""

    name: str
    over: "Value | None" = None


@dataclass(eq=False)
class Node:
    """A layer with the values it reads and makes; the names in ``layer`` itself are not used."""

    layer: LayerParameter
    bottoms: Sequence[Value]
    tops: Sequence[Value]

    @property
    def name(self) -> str:
        """The layer's name."""
        return self.layer.name

    @property
    def kind(self) -> str:
        """The type that the fork calls the layer by."""
        return kind(self.layer)

    @property
    def said(self) -> str:
        """The layer as messages name it."""
        return f"{self.name} ({self.kind})"


class Graph:
    """Nodes in the order in which Caffe runs them."""

    def __init__(self, name: str, nodes: Iterable[Node]) -> None:
        self.name = name
        self.nodes = tuple(nodes)
        self.producer = {top: node for node in self.nodes for top in node.tops}
        self.consumers: dict[Value, list[Node]] = {top: [] for top in self.producer}
        for node in self.nodes:
            for bottom in node.bottoms:
                self.consumers.setdefault(bottom, []).append(node)

    def ancestors(self, values: Iterable[Value]) -> tuple[Node, ...]:
        """The nodes that ``values`` are computed by, in order."""
        wanted = set(values)
        found = []
        for node in reversed(self.nodes):
            if wanted.intersection(node.tops):
                wanted.update(node.bottoms)
                found.append(node)
        return tuple(reversed(found))

    def part(self, values: Iterable[Value]) -> "Graph":
        """The graph of the nodes that ``values`` are computed by."""
        return Graph(self.name, self.ancestors(values))

    def check_made(self, file: Path, phase: str) -> None:
        """Raise ProgramError naming the first layer that reads what no layer before it makes."""
        for node in self.nodes:
            for bottom in node.bottoms:
                if bottom not in self.producer:
                    raise ProgramError(
                        f"{file}: in the {phase} phase, layer {node.said} reads {bottom.name}, which no layer before "
                        "it makes"
                    )

    def definition(self, names: Mapping[Value, str] | None = None) -> tuple[NetParameter, dict[Value, str]]:
        """The net, and the blob of each value: one of its own by ``names``, or else that of the value's name.

        Without a name for its value, a layer works in place where it did and no other layer reads what is lost.
        """
        names = names or {}
        blobs: dict[Value, str] = {}
        taken: set[str] = set()
        net = NetParameter(name=self.name)
        for node in self.nodes:
            layer = net.layer.add()
            layer.CopyFrom(node.layer)
            del layer.bottom[:]
            del layer.top[:]
            layer.bottom.extend(blobs[bottom] for bottom in node.bottoms)
            for top in node.tops:
                if top not in names and top.over in node.bottoms and self.consumers[top.over] == [node]:
                    blobs[top] = blobs[top.over]
                else:
                    blobs[top] = _free(names.get(top, top.name), node.name, taken)
                taken.add(blobs[top])
                layer.top.append(blobs[top])
        return net, blobs


def read_graph(net: NetParameter) -> Graph:
    """The graph of a net that has no rules (include, exclude). What no layer makes is a value of no node."""
    blobs: dict[str, Value] = {}
    nodes = []
    for layer in net.layer:
        bottoms = [blobs.setdefault(name, Value(name)) for name in layer.bottom]
        tops = [Value(name, blobs[name] if name in layer.bottom else None) for name in layer.top]
        blobs.update(zip(layer.top, tops, strict=True))
        nodes.append(Node(layer, bottoms, tops))
    return Graph(net.name, nodes)


def copy(layer: LayerParameter, name: str | None = None) -> LayerParameter:
    """A layer's parameters, to be changed; ``name``: its new one."""
    new = LayerParameter()
    new.CopyFrom(layer)
    if name is not None:
        new.name = name
    return new


def last_of_blobs(blobs: Mapping[Value, str]) -> dict[Value, str]:
    """The values that are still in their blobs after a forward pass."""
    last = {name: value for value, name in blobs.items()}
    return {value: name for name, value in last.items()}


def _free(wanted: str, layer: str, taken: set[str]) -> str:
    """``wanted``, the layer's name, or one with a number: the first that is not taken."""
    names = [wanted, layer, *(f"{layer}_{i}" for i in range(2, len(taken) + 3))]
    return next(name for name in names if name not in taken)
