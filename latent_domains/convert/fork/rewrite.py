"""Puts our layers into a graph of the fork's: an MDALayer for each group, DomainAssignmentLayer, EntropyLossLayer."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from caffe.proto.caffe_pb2 import LayerParameter, NetParameter, PythonParameter

from latent_domains.common.program import ProgramError
from latent_domains.convert.fork.groups import MDAGroup, RowGroup
from latent_domains.convert.fork.names import Names, part_names
from latent_domains.convert.fork.rows import Rows, count
from latent_domains.convert.fork.text import ENTROPY, MULTIMODAL, statistics_param
from latent_domains.models.graph import Graph, Node, Value, copy
from latent_domains.nets.blocks import STATISTIC, python_param

_DEFAULT_EPS = 1e-5


@dataclass(frozen=True)
class NamedGraph:
    """A graph, and the names of its blobs where they are not those of its values."""

    graph: Graph
    names: Mapping[Value, str]

    def definition(self) -> NetParameter:
        """The net."""
        return self.graph.definition(self.names)[0]


def rewrite(
    graph: Graph, groups: Sequence[MDAGroup], names: Names, rows: Mapping[Value, Rows], where: str
) -> NamedGraph:
    """The graph with our layers. Values that both graphs have are the same objects.

    ``rows`` gives the constant rows w of a known domain their number; ``where`` begins messages: file and phase.
    Raises ProgramError naming the layers if the domains of a group have parameters of their own or are in another order
    than in training, or if a layer has the name of one of ours.
    """
    by_root = {group.root: group for group in groups}
    # Like the mDA layers, which cannot work in place, they get blobs of their own, as in our nets.
    scales = {node for group in groups for node in graph.readers(group.out) if node.kind == "Scale"}
    assignments, w = _assignments(graph, groups[0], names, rows, where)
    nodes = list(assignments.get(None, ()))
    blobs: dict[Value, str] = {}
    for node in graph.nodes:
        if group := by_root.get(node):
            new = _mda(group, w, names, where)
            blobs[group.out] = new.name
        else:
            new = _renamed(node, names.layers.get(node.name, node.name))
            if new.name == "scores_source":
                blobs.update(zip(node.tops, ("scores_source", "scores_target"), strict=True))
            elif node in scales or (new.name != node.name and len(node.tops) == 1 and node.tops[0].over is None):
                blobs[node.tops[0]] = new.name
        nodes += [new, *assignments.get(node, ())]
    made = Graph(graph.name, nodes, graph.outputs)
    made.remove_unread()
    if left := [node.title for node in made.nodes if node.kind == MULTIMODAL]:
        raise ProgramError(
            f"{where}: what {', '.join(left)} makes is read by other layers too, so no MDALayer can stand in its place"
        )
    named: dict[str, Node] = {}
    for node in made.nodes:
        if (other := named.setdefault(node.name, node)) is not node:
            raise ProgramError(f"{where}: layers {other.title} and {node.title} would both be called {node.name}")
    made.silence_unread()
    return NamedGraph(made, blobs)


def _assignments(
    graph: Graph, group: MDAGroup, names: Names, rows: Mapping[Value, Rows], where: str
) -> tuple[dict[Node | None, list[Node]], Value | None]:
    """The layers that make w, by the node they follow (None: they come first), and w itself."""
    if len(group.parts) == 1 and group.parts[0].softmax is None:
        return {}, None
    after: dict[Node | None, list[Node]] = {}
    tops = []
    for part, name in zip(group.parts, part_names(group)[1], strict=True):
        if part.softmax is None:
            logits = Value(f"{name}_logits")
            zeros = {"shape": [{"dim": [count(rows[part.x]), 1]}], "data_filler": [{"type": "constant", "value": 0}]}
            dummy = LayerParameter(name=logits.name, type="DummyData", dummy_data_param=zeros)
            after.setdefault(None, []).append(Node(dummy, [], [logits]))
        else:
            (logits,) = part.softmax.bottoms
        params = {"num_domains": names.domains, "first": _first(part, names, where)}
        tops.append(Value(name))
        node = Node(_python(name, "DomainAssignmentLayer", params), [logits], [tops[-1]])
        after.setdefault(part.softmax, []).append(node)
    if len(tops) == 1:
        return after, tops[0]
    joined = Value("w")
    last = max((node for node in after if node is not None), key=graph.nodes.index, default=None)
    after[last].append(Node(LayerParameter(name="w", type="Concat", concat_param={"axis": 0}), tops, [joined]))
    return after, joined


def _mda(group: MDAGroup, w: Value | None, names: Names, where: str) -> Node:
    parameters = {norm: _parameters(norm) for norm in group.norms}
    first, *_ = group.norms
    for norm, found in parameters.items():
        if found != parameters[first]:
            raise ProgramError(
                f"{where}: layer {norm.title} has {_listed(found)}, but {first.name} has {_listed(parameters[first])}: "
                "expected the same in all domains of an mDA layer"
            )
    params: dict[str, object] = {"num_domains": names.domains, **parameters[first]}
    if params["eps"] == _DEFAULT_EPS:
        del params["eps"]
    columns = [_first(part, names, where) for part in group.parts]
    if w is None and columns[0] != names.domains - 1:
        params["domain"] = columns[0]
    layer = _python(names.mda[first.name], "MDALayer", params)
    for _ in range(3):
        layer.param.add(**STATISTIC)
    return Node(layer, [group.x] if w is None else [group.x, w], [group.out])


def _parameters(norm: Node) -> dict[str, object]:
    """The settings of a normalising layer."""
    if norm.kind == MULTIMODAL:
        return json.loads(norm.layer.python_param.param_str)
    return statistics_param(norm.layer.batch_norm_param)


def _first(part: RowGroup, names: Names, where: str) -> int:
    """The column of a part's first domain."""
    columns = [names.columns[norm.name] for norm in part.norms]
    if columns != list(range(columns[0], columns[0] + len(columns))):
        layers = ", ".join(norm.name for norm in part.norms)
        raise ProgramError(f"{where}: layers {layers} are in another order than in the TRAIN phase")
    return columns[0]


def _renamed(node: Node, name: str) -> Node:
    layer = copy(node.layer, name)
    if node.kind == ENTROPY:
        layer.python_param.CopyFrom(PythonParameter(**python_param("EntropyLossLayer")))
    return Node(layer, node.bottoms, node.tops)


def _python(name: str, layer: str, params: dict[str, object]) -> LayerParameter:
    return LayerParameter(name=name, type="Python", python_param=python_param(layer, params))


def _listed(parameters: Mapping[str, object]) -> str:
    return ", ".join(f"{key} {value}" for key, value in parameters.items())
