"""Put our layers into a graph of the fork: an MDALayer for each group, DomainAssignmentLayer, EntropyLossLayer."""

import json
from collections.abc import Mapping, Sequence

from caffe.proto.caffe_pb2 import LayerParameter, PythonParameter

from latent_domains.common.program import ProgramError
from latent_domains.convert.fork.structure import ENTROPY, MULTIMODAL, MDAGroup, batch_size, statistics_param
from latent_domains.convert.fork.weights import Names
from latent_domains.models.graph import Graph, Node, Value, copy
from latent_domains.networks.blocks import STATISTIC, python_param

_DEFAULT_EPS = 1e-5


def rewrite(
    graph: Graph,
    groups: Sequence[MDAGroup],
    names: Names,
    num_domains: int,
    rows: Mapping[Value, tuple[Node, ...]],
    where: str,
) -> Graph:
    """Return the graph with our layers. Values that both graphs have are the same objects.

    ``num_domains`` is D of the mDA layers. ``rows`` are the data layers of each value's rows: the constant w of a known
    domain has as many. ``where`` begins messages: file and phase. Refuses a group whose domains have their own
    parameters, replaced layers that others read, and layers with the names of ours.
    """
    by_root = {group.root: group for group in groups}
    # Like the mDA layers, which cannot work in place, they get blobs of their own, as in our nets.
    scales = {node for group in groups for node in graph.readers(group.out) if node.kind == "Scale"}
    assignments, w = _assignments(graph, groups[0], num_domains, rows)
    nodes = list(assignments.get(None, ()))
    blobs: dict[Value, str] = {}
    for node in graph.nodes:
        if group := by_root.get(node):
            new = _mda(group, w, names, num_domains, where)
            blobs[group.out] = new.name
        else:
            new = _renamed(node, names.layers.get(node.name, node.name))
            if new.name == "scores_source":
                blobs.update(zip(node.tops, ("scores_source", "scores_target"), strict=True))
            elif node in scales or (new.name != node.name and len(node.tops) == 1 and node.tops[0].over is None):
                blobs[node.tops[0]] = new.name
        nodes += [new, *assignments.get(node, ())]
    made = Graph(graph.name, nodes, graph.outputs, blob_names=blobs)
    made.remove_unread()
    if left := [node.title for node in made.nodes if node.kind == MULTIMODAL]:
        raise ProgramError(
            f"{where}: other layers read the output of {', '.join(left)}, too, so no MDALayer can replace it"
        )
    named: dict[str, Node] = {}
    for node in made.nodes:
        if (other := named.setdefault(node.name, node)) is not node:
            raise ProgramError(f"{where}: layers {other.title} and {node.title} would both be called {node.name}")
    made.silence_unread()
    return made


def _assignments(
    graph: Graph, group: MDAGroup, num_domains: int, rows: Mapping[Value, tuple[Node, ...]]
) -> tuple[dict[Node | None, list[Node]], Value | None]:
    """Return the layers that make w, by the node they follow (None: they come first), and w itself.

    A test net of one target needs none.
    """
    after: dict[Node | None, list[Node]] = {}
    if all(part.softmax is None for part in group.parts):
        return after, None
    tops: list[Value] = []
    first = num_domains - len(group.norms)
    for part, name in zip(group.parts, ("w_source", "w_target")[-len(group.parts) :], strict=True):
        if part.softmax is None:
            logits = Value(f"{name}_logits")
            count = sum(batch_size(source.layer) for source in rows[part.x])
            zeros = {"shape": [{"dim": [count, 1]}], "data_filler": [{"type": "constant", "value": 0}]}
            dummy = LayerParameter(name=logits.name, type="DummyData", dummy_data_param=zeros)
            after.setdefault(None, []).append(Node(dummy, [], [logits]))
        else:
            (logits,) = part.softmax.bottoms
        tops.append(Value(name))
        layer = _python(name, "DomainAssignmentLayer", {"num_domains": num_domains, "first": first})
        after.setdefault(part.softmax, []).append(Node(layer, [logits], [tops[-1]]))
        first += len(part.norms)
    if len(tops) == 1:
        return after, tops[0]
    joined = Value("w")
    last = max((node for node in after if node is not None), key=graph.nodes.index)
    after[last].append(Node(LayerParameter(name="w", type="Concat", concat_param={"axis": 0}), tops, [joined]))
    return after, joined


def _mda(group: MDAGroup, w: Value | None, names: Names, num_domains: int, where: str) -> Node:
    first, *others = group.norms
    params = _parameters(first)
    for norm in others:
        if (found := _parameters(norm)) != params:
            raise ProgramError(
                f"{where}: layer {norm.title} has {found}, but {first.name} has {params}: expected the same in all "
                "domains of an mDA layer"
            )
    if params["eps"] == _DEFAULT_EPS:
        del params["eps"]
    layer = _python(names.mda[first.name], "MDALayer", {"num_domains": num_domains, **params})
    for _ in range(3):
        layer.param.add(**STATISTIC)
    return Node(layer, [group.x] if w is None else [group.x, w], [group.out])


def _parameters(norm: Node) -> dict[str, object]:
    """Return the settings of a normalising layer."""
    if norm.kind == MULTIMODAL:
        return json.loads(norm.layer.python_param.param_str)
    return statistics_param(norm.layer.batch_norm_param)


def _renamed(node: Node, name: str) -> Node:
    layer = copy(node.layer, name)
    if node.kind == ENTROPY:
        layer.python_param.CopyFrom(PythonParameter(**python_param("EntropyLossLayer")))
    return Node(layer, node.bottoms, node.tops)


def _python(name: str, layer: str, params: dict[str, object]) -> LayerParameter:
    return LayerParameter(name=name, type="Python", python_param=python_param(layer, params))
