"""mDA where images are assigned to domains at test time too: the same in stock layers.

With running statistics, MDALayer's output is y = A x + B for each image and channel, with A and B the products of the
image's row w and the domains' own maps: two inner products without bias.
"""

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
from caffe.proto.caffe_pb2 import LayerParameter

from caffe_layers import domain_assignment
from latent_domains.convert.fold.affine import Map, channel_map, compose, mda_maps, uses_running_statistics
from latent_domains.models.graph import Blob, Graph, Node, Value


def fold_assignments(graph: Graph) -> dict[Value, range]:
    """Write every DomainAssignmentLayer without labels as a Softmax and an InnerProduct that puts it into its columns.

    Returns the domains that the rows of each w may belong to.
    """
    domains = {}
    for node in list(graph.nodes):
        if node.kind != "DomainAssignmentLayer" or len(node.bottoms) != 1:
            continue
        given = domain_assignment.parameters(node.layer.python_param.param_str)
        (logits,), (w,) = node.bottoms, node.tops
        group = prod(logits.shape[1:])
        domains[w] = range(given["first"], given["first"] + group)
        columns = np.zeros((given["num_domains"], group))
        columns[domains[w], range(group)] = 1
        product = {"num_output": len(columns), "bias_term": False}
        spread = LayerParameter(name=node.name, type="InnerProduct", inner_product_param=product)
        name = graph.fresh(f"{node.name}_softmax")
        p = Value(name, logits.shape)
        softmax = Node(LayerParameter(name=name, type="Softmax"), [logits], [p])
        graph.replace(node, [softmax, Node(spread, [p], [w], [columns])])
    return domains


def fold_assigned(graph: Graph, domains: Mapping[Value, range]) -> None:
    """Write every MDALayer whose rows may be of several domains, and the per-channel maps behind it, as stock layers.

    ``domains`` are those that the rows of a w may belong to, as far as they are known.
    """
    folded = []
    for node in list(graph.nodes):
        if not (node.kind == "MDALayer" and len(node.bottoms) == 2 and uses_running_statistics(node)):
            continue
        possible = domains.get(node.bottoms[1])
        if possible is not None and len(possible) == 1:
            continue
        maps = mda_maps(graph, node, possible)
        top = node.tops[0]
        while (reader := graph.only_reader(top)) and (then := channel_map(graph, reader, domains)):
            maps = compose(maps, then)
            top = reader.tops[0]
            graph.nodes.remove(reader)
        graph.replace(node, _applied(graph, node, top, maps))
        folded.append(node.name)
    if folded:
        graph.notes.append(
            f"several target domains: {', '.join(folded)} need the assignment of each image at test time, "
            "so the branch that predicts it stays"
        )


def _applied(graph: Graph, node: Node, top: Value, maps: Map) -> list[Node]:
    """Layers that make ``top`` of x and w (N×D): y = (w a) x + w b, with a and b D×C.

    The factor of each image and channel needs a Scale of two bottoms, whose axis is the batch's. OpenCV has no Bias of
    two bottoms: the offsets become a blob of x's shape by such a Scale of ones.
    """
    x, w = node.bottoms
    channels = x.shape[1]
    nodes: list[Node] = []

    def make(kind: str, name: str, bottoms: list[Value], shape: tuple[int, ...], *blobs: Blob, **fields: Any) -> Value:
        made = Value(graph.fresh(f"{node.name}_{name}"), shape)
        nodes.append(Node(LayerParameter(name=made.name, type=kind, **fields), bottoms, [made], list(blobs)))
        return made

    product = {"num_output": channels, "bias_term": False}
    rows = x.shape[0], channels
    factor = make("InnerProduct", "factor", [w], rows, maps[0].T, inner_product_param=product)
    offset = make("InnerProduct", "offset", [w], rows, maps[1].T, inner_product_param=product)
    scaled = make("Scale", "scaled", [x, factor], x.shape, scale_param={"axis": 0})
    constant = np.zeros(channels), np.ones(channels)
    ones = make("Scale", "ones", [x], x.shape, *constant, scale_param={"bias_term": True})
    offset = make("Scale", "offset_spread", [ones, offset], x.shape, scale_param={"axis": 0})
    return [*nodes, Node(LayerParameter(name=node.name, type="Eltwise"), [scaled, offset], [top])]
