"""Per-channel maps y = a x + b: BatchNorm, MDALayer and Scale are such maps, and go into the layer before them.

If images are assigned to domains at test time too, MDALayer's output with running statistics is y = A x + B for each
image and channel, with A and B the products of the image's row w and the domains' own maps: two inner products without
bias.
"""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from caffe.proto.caffe_pb2 import LayerParameter
from numpy.typing import NDArray

from caffe_layers import domain_assignment, mda
from latent_domains.common.program import ProgramError
from latent_domains.models.graph import Blob, Graph, Node, Value

Map = tuple[Blob, Blob]
"""a and b of y = a x + b, one value for each channel (axis 1)."""

_CHANNELS = 1

_CONVOLUTIONS = ("Convolution", "Deconvolution")


def fold_maps(graph: Graph, domains: Mapping[Value, range]) -> None:
    """Put every per-channel map into the (de)convolution or inner product before it, or make it a Scale with bias.

    Maps that follow one another become one. A value that something else reads stays as it is. ``domains`` are those
    that the rows of a w may belong to: with a single one, an MDALayer with that w is such a map.
    """
    for node in list(graph.nodes):
        found = channel_map(graph, node, domains)
        if found is None:
            continue
        maker = graph.maker(node.bottoms[0])
        alone = graph.only_reader(node.bottoms[0]) is node
        if alone and _takes_maps(maker):
            _put_into(maker, found)
            graph.absorb(node)
        elif alone and (before := channel_map(graph, maker, domains)) is not None:
            graph.nodes.remove(maker)
            _make_scale(node, maker, compose(before, found))
        elif node.type != "Scale":  # a Bias too, which OpenCV does not know
            _make_scale(node, node, found)


def channel_map(graph: Graph, node: Node, domains: Mapping[Value, range]) -> Map | None:
    """Return the per-channel map that a layer is; None if it is something else. ``domains``: see :func:`fold_maps`."""
    if node.type == "BatchNorm" and len(node.bottoms[0].shape) > 1 and uses_running_statistics(node):
        return batch_norm_map(graph, node)
    if node.kind == "MDALayer" and uses_running_statistics(node):
        given = mda.parameters(node.layer.python_param.param_str)
        own = given["num_domains"] - 1 if given["domain"] is None else given["domain"]  # of every row, without w
        possible = [own] if len(node.bottoms) == 1 else domains.get(node.bottoms[1], ())
        if len(possible) != 1:
            return None
        (domain,) = possible
        a, b = mda_maps(graph, node, [domain])
        return a[domain], b[domain]
    if node.type == "Scale" and _per_channel(node, node.layer.scale_param.axis):
        a, *b = _in_64_bits(node.blobs)
        return a, b[0] if b else np.zeros_like(a)
    if node.type == "Bias" and _per_channel(node, node.layer.bias_param.axis):
        (b,) = _in_64_bits(node.blobs)
        return np.ones_like(b), b
    return None


def compose(first: Map, then: Map) -> Map:
    """Return the map that does ``first``, and ``then`` the other; broadcasts, so that one may follow several."""
    return then[0] * first[0], then[0] * first[1] + then[1]


def _make_scale(node: Node, first: Node, found: Map) -> None:
    """Make ``node`` a Scale with bias, under its name; it reads what ``first`` did."""
    node.layer = LayerParameter(name=node.name, type="Scale", scale_param={"bias_term": True})
    node.bottoms, node.blobs = first.bottoms[:1], list(found)
    if node.tops[0].over in first.tops:
        node.tops[0].over = first.tops[0].over


def _per_channel(node: Node, axis: int) -> bool:
    """Say whether a Scale or Bias has one value of its own for each channel."""
    shape = node.bottoms[0].shape
    return (
        len(node.bottoms) == 1
        and len(shape) > _CHANNELS
        and node.axis(axis) == _CHANNELS
        and node.blobs[0].shape == (shape[_CHANNELS],)
    )


def _takes_maps(node: Node) -> bool:
    """Say whether a layer has its own weights and bias for each channel, which can include a map."""
    if node.type in _CONVOLUTIONS:
        return node.axis(node.layer.convolution_param.axis) == _CHANNELS and len(node.tops) == 1
    return node.type == "InnerProduct" and node.axis(node.layer.inner_product_param.axis) == _CHANNELS


def _put_into(node: Node, found: Map) -> None:
    """Change weights and bias of a layer so that they do ``found`` too. The bias is omitted if it is all 0."""
    a, b = found
    given = node.layer.convolution_param if node.type in _CONVOLUTIONS else node.layer.inner_product_param
    weights = node.blobs[0]
    factors = a[:, None]  # out×1, for weights out×in×…
    if node.type == "Deconvolution":  # in×out/group×…: each row has the channels of its group
        factors = np.repeat(a.reshape(given.group, -1), len(weights) // given.group, axis=0)
    node.blobs[0] = weights * factors.reshape(*factors.shape, *[1] * (weights.ndim - 2))
    if given.bias_term:
        b = b + a * node.blobs[1]
    given.ClearField("bias_term")  # true
    node.blobs[1:] = [b]
    if not b.any():
        given.bias_term = False
        del node.blobs[1:]


def uses_running_statistics(node: Node) -> bool:
    """Say whether a BatchNorm or MDALayer uses running statistics: only then its map does not depend on the batch."""
    if node.type == "BatchNorm":
        given = node.layer.batch_norm_param
        chosen = given.use_global_stats or not given.HasField("use_global_stats")
    else:
        chosen = mda.parameters(node.layer.python_param.param_str)["use_global_stats"]
    return chosen is not False


def batch_norm_map(graph: Graph, node: Node) -> Map:
    """Return a BatchNorm as y = a x + b: a and b, one value for each channel."""
    mean, variance, divisor = node.blobs
    a, b = _maps(graph, node, (mean[None], variance[None], divisor), node.layer.batch_norm_param.eps, range(1))
    return a[0], b[0]


def mda_maps(graph: Graph, node: Node, used: Sequence[int] | None = None) -> Map:
    """Return an MDALayer as y = a_d x + b_d for rows of domain d: a and b, D×C.

    ``used`` are the domains that rows may belong to, by default all: the others' statistics may be missing.
    """
    given = mda.parameters(node.layer.python_param.param_str)
    return _maps(graph, node, node.blobs, given["eps"], range(given["num_domains"]) if used is None else used)


def _in_64_bits(blobs: Sequence[Blob]) -> list[NDArray[np.float64]]:
    """Return parameters to compute with."""
    return [blob.astype(np.float64) for blob in blobs]


def _maps(graph: Graph, node: Node, blobs: Sequence[Blob], eps: float, used: Sequence[int]) -> Map:
    """Return a and b (D×C) from Σ mean, Σ variance (D×C) and their divisor (D). If it is 0, mean and variance are 0."""
    means, variances, divisor = _in_64_bits(blobs)
    factor = np.divide(1, divisor, out=np.zeros_like(divisor), where=divisor != 0)[:, None]
    if empty := [d for d in used if divisor[d] == 0]:
        whose = "" if len(divisor) == 1 else f" of domain {', '.join(map(str, empty))}"
        graph.notes.append(
            f"{node.name}: no running statistics{whose} (divisor 0), taken as mean 0 and variance 0 as the layer does: "
            "was the model trained?"
        )
    total = factor * variances + eps
    if (total[list(used)] <= 0).any():
        raise ProgramError(
            f"layer {node.name}: its smallest variance is {(total - eps)[list(used)].min():g}, expected at least 0: "
            "these are no running statistics"
        )
    a = 1 / np.sqrt(np.maximum(total, np.finfo(float).tiny))
    return a, -a * factor * means


def fold_assignments(graph: Graph) -> dict[Value, range]:
    """Write every DomainAssignmentLayer without labels as a Softmax and an InnerProduct that puts it into its columns.

    Returns the domains to which the rows of each w may belong.
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
    """Write every MDALayer whose rows may be of several domains, and the per-channel maps after it, as stock layers.

    ``domains`` are those to which the rows of a w may belong, as far as they are known.
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
    """Return layers that make ``top`` of x and w (N×D): y = (w a) x + w b, with a and b D×C.

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
