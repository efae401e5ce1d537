"""Puts our layers into a graph of the fork's: an MDALayer for each group, DomainAssignmentLayer, EntropyLossLayer."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from caffe.proto.caffe_pb2 import LayerParameter, NetParameter, PythonParameter

from latent_domains.common.program import ProgramError
from latent_domains.convert.fork.groups import MDAGroup, RowGroup
from latent_domains.convert.fork.names import Names, part_names
from latent_domains.convert.fork.rows import Segment, count
from latent_domains.convert.fork.text import ENTROPY, MULTIMODAL, statistics_param
from latent_domains.models.graph import Graph, Node, Value, copy
from latent_domains.nets.blocks import STATISTIC, python_param

_DEFAULT_EPS = 1e-5


@dataclass(frozen=True)
class Rewritten:
    """Our graph in the place of the fork's, and the blobs that are called otherwise than their values."""

    graph: Graph
    blobs: Mapping[Value, str]

    def definition(self) -> NetParameter:
        """The net."""
        return self.graph.definition(self.blobs)[0]


def rewrite(
    graph: Graph, groups: Sequence[MDAGroup], names: Names, rows: Mapping[Value, Sequence[Segment]], where: str
) -> Rewritten:
    """The graph with our layers. Values that both graphs have are the same objects.

    ``rows`` gives the constant rows w of a known domain their number; ``where`` begins messages: file and phase.
    Raises ProgramError naming the layers if the domains of a group have parameters of their own or are in another order
    than in training, or if a layer has the name of one of ours.
    """
    return _Rewriting(graph, groups, names, rows, where).result()


class _Rewriting:
    def __init__(
        self,
        graph: Graph,
        groups: Sequence[MDAGroup],
        names: Names,
        rows: Mapping[Value, Sequence[Segment]],
        where: str,
    ) -> None:
        self._graph, self._groups, self._names, self._rows, self._where = graph, groups, names, rows, where
        self._domains = 1 + max(names.columns.values())
        self._blobs: dict[Value, str] = {}
        # Like the mDA layers, which cannot work in place, they get blobs of their own, as in our nets.
        self._scales = {node for group in groups for node in graph.readers(group.out) if node.kind == "Scale"}

    def result(self) -> Rewritten:
        """See :func:`rewrite`."""
        by_root = {group.root: group for group in self._groups}
        before, w = self._assignments()
        nodes: list[Node] = []
        for node in self._graph.nodes:
            if node in by_root:
                nodes.append(self._mda(by_root[node], w))
            else:
                nodes.append(self._renamed(node))
            nodes += before.get(node, ())
        graph = Graph(self._graph.name, before.get(None, []) + nodes, self._graph.outputs)
        graph.remove_unread()
        if left := [node.said for node in graph.nodes if node.kind == MULTIMODAL]:
            raise ProgramError(
                f"{self._where}: what {', '.join(left)} makes is read by other layers too, so no MDALayer can stand "
                "in its place"
            )
        named: dict[str, Node] = {}
        for node in graph.nodes:
            if named.setdefault(node.name, node) is not node:
                both = f"{named[node.name].said} and {node.said}"
                raise ProgramError(f"{self._where}: layers {both} would both be called {node.name}")
        graph.silence_unread()
        return Rewritten(graph, self._blobs)

    def _assignments(self) -> tuple[dict[Node | None, list[Node]], Value | None]:
        """The layers that make w, by the node they follow (None: they come first), and w itself."""
        group = self._groups[0]
        if len(group.parts) == 1 and group.parts[0].softmax is None:
            return {}, None
        after: dict[Node | None, list[Node]] = {}
        order = {node: i for i, node in enumerate(self._graph.nodes)}
        tops = []
        _, assignments = part_names(group)
        for part, w in zip(group.parts, assignments, strict=True):
            first = self._first(part)
            if part.softmax is None:
                logits = Value(f"{w}_logits")
                shape = {"dim": [count(self._rows[part.x]), 1]}
                dummy = LayerParameter(
                    name=logits.name,
                    type="DummyData",
                    dummy_data_param={"shape": [shape], "data_filler": [{"type": "constant", "value": 0}]},
                )
                after.setdefault(None, []).append(Node(dummy, [], [logits]))
            else:
                (logits,) = part.softmax.bottoms
            top = Value(w)
            params = {"num_domains": self._domains, "first": first}
            node = Node(_python(w, "DomainAssignmentLayer", params), [logits], [top])
            after.setdefault(part.softmax, []).append(node)
            tops.append(top)
        if len(tops) == 1:
            return after, tops[0]
        joined = Value("w")
        concat = Node(LayerParameter(name="w", type="Concat", concat_param={"axis": 0}), tops, [joined])
        last = max((node for node in after if node is not None), key=order.__getitem__, default=None)
        after[last].append(concat)
        return after, joined

    def _mda(self, group: MDAGroup, w: Value | None) -> Node:
        first, domains = group.norms[0], self._domains
        name = self._names.mda[first.name]
        params: dict[str, object] = {"num_domains": domains, **self._parameters(group)}
        if params["eps"] == _DEFAULT_EPS:
            del params["eps"]
        if w is None and (column := self._first(group.parts[0])) != domains - 1:
            params["domain"] = column
        for part in group.parts:
            self._first(part)
        layer = _python(name, "MDALayer", params)
        for _ in range(3):
            layer.param.add(**STATISTIC)
        self._blobs[group.out] = name
        return Node(layer, [group.x] if w is None else [group.x, w], [group.out])

    def _parameters(self, group: MDAGroup) -> dict[str, object]:
        """What the normalising layers of a group are set to, all of them alike."""
        parameters = [
            json.loads(norm.layer.python_param.param_str)
            if norm.kind == MULTIMODAL
            else statistics_param(norm.layer.batch_norm_param)
            for norm in group.norms
        ]
        for norm, found in zip(group.norms, parameters, strict=True):
            if found != parameters[0]:
                raise ProgramError(
                    f"{self._where}: layer {norm.said} has {_said(found)}, but {group.norms[0].name} has "
                    f"{_said(parameters[0])}: expected the same in all domains of an mDA layer"
                )
        return parameters[0]

    def _first(self, part: RowGroup) -> int:
        """The column of a part's first domain."""
        columns = [self._names.columns[norm.name] for norm in part.norms]
        if columns != list(range(columns[0], columns[0] + len(columns))):
            names = ", ".join(norm.name for norm in part.norms)
            raise ProgramError(f"{self._where}: layers {names} are in another order than in the TRAIN phase")
        return columns[0]

    def _renamed(self, node: Node) -> Node:
        name = self._names.layers.get(node.name, node.name)
        if node in self._scales or (name != node.name and len(node.tops) == 1 and node.tops[0].over is None):
            self._blobs[node.tops[0]] = name
        elif name == "scores_source":
            self._blobs.update(zip(node.tops, ("scores_source", "scores_target"), strict=True))
        layer = copy(node.layer, name)
        if node.kind == ENTROPY:
            layer.python_param.CopyFrom(PythonParameter(**python_param("EntropyLossLayer")))
        return Node(layer, node.bottoms, node.tops)


def _python(name: str, layer: str, params: dict[str, object]) -> LayerParameter:
    return LayerParameter(name=name, type="Python", python_param=python_param(layer, params))


def _said(parameters: Mapping[str, object]) -> str:
    return ", ".join(f"{key} {value}" for key, value in parameters.items())
