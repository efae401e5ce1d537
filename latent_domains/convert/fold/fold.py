"""A net for tests in stock layers: layers take up the normalisation after them, and unused branches are removed.

Convolutions and pools are written as stock Caffe and OpenCV know them. ``pad_end`` of convolutions is ours alone
(docker/patches): the kernel gets rows and columns of zeros on the side with less padding. ``round_mode`` of pools is
unknown to older Caffes and to OpenCV: rounding up puts the windows at the same places, and adds at most one row and one
column behind. One size for three axes is a division by zero in OpenCV.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from caffe.proto.caffe_pb2 import ConvolutionParameter, LayerParameter, PoolingParameter

from latent_domains.common.program import ProgramError
from latent_domains.convert.fold.affine import fold_assigned, fold_assignments, fold_maps, uses_running_statistics
from latent_domains.models.compare import makers
from latent_domains.models.graph import Graph, Node, Value, comparable_blobs, end_pads, of_model, pair, to_model
from latent_domains.models.model import Model, load


def even_pads(graph: Graph) -> None:
    """Remove ``pad_end``. Refuses a layer whose dilated kernel cannot grow in this way."""
    for node in graph.nodes:
        given = node.layer.convolution_param
        if not given.pad_end:
            continue
        pads, ends = pair(given, "pad", "pad", 0), end_pads(given)
        if pads == ends:
            continue
        steps = pair(given, "dilation", "dilation", 1)
        if any((end - pad) % step for pad, end, step in zip(pads, ends, steps, strict=True)):
            raise ProgramError(
                f"layer {node.title}: pad_end {ends}, expected pad {pads} and a multiple of dilation {steps}"
            )
        more = [(end - pad) // step for pad, end, step in zip(pads, ends, steps, strict=True)]
        zeros = [(max(rows, 0), max(-rows, 0)) for rows in more]
        node.blobs[0] = np.pad(node.blobs[0], [(0, 0), (0, 0), *zeros])
        for field in ("pad", "pad_h", "pad_w", "pad_end", "kernel_size", "kernel_h", "kernel_w"):
            given.ClearField(field)
        _say(given, "kernel", "kernel_size", *node.blobs[0].shape[2:])
        _say(given, "pad", "pad", *map(max, pads, ends))


def spell_out(graph: Graph) -> None:
    """Give convolutions of three axes, as of videos, a size for each axis if one size is for all."""
    for node in graph.nodes:
        if node.type in ("Convolution", "Deconvolution") and (axes := node.blobs[0].ndim - 2) > 2:
            given = node.layer.convolution_param
            for sizes in (given.kernel_size, given.stride, given.pad, given.dilation):
                sizes[:] = list(sizes) * (axes if len(sizes) == 1 else 1)


def _say(given: ConvolutionParameter, stem: str, field: str, height: int, width: int) -> None:
    if height == width:
        getattr(given, field).append(height)
    else:
        setattr(given, f"{stem}_h", height)
        setattr(given, f"{stem}_w", width)


def crop_floor_pools(graph: Graph) -> None:
    """Remove ``round_mode``: if the sizes differ, slice off what rounding up adds (for inputs of this size)."""
    for node in list(graph.nodes):
        given = node.layer.pooling_param
        if node.type != "Pooling" or given.round_mode != PoolingParameter.FLOOR or len(node.tops) != 1:
            continue
        given.ClearField("round_mode")
        wanted = node.tops[0]
        shape = *wanted.shape[:2], *pooled_size(given, node.bottoms[0].shape[2:])
        axes = [axis for axis in (2, 3) if shape[axis] != wanted.shape[axis]]
        if axes:
            whole = Value(graph.fresh(f"{node.name}_whole"), shape)
            node.tops[0] = whole
            graph.replace(node, [node, *_crops(graph, node.name, whole, wanted, axes)])


def pooled_size(given: PoolingParameter, size: tuple[int, ...]) -> list[int]:
    """Return height and width that Caffe's pool makes of ``size`` when it rounds up. (A global pool makes 1×1.)"""
    if given.global_pooling:
        return [1, 1]
    kernels, strides = pair(given, "kernel", "kernel_size", 0), pair(given, "stride", "stride", 1)
    pads = pair(given, "pad", "pad", 0)
    found = []
    for side, kernel, stride, pad in zip(size, kernels, strides, pads, strict=True):
        pooled = -(-(side + 2 * pad - kernel) // stride) + 1
        if any(pads) and (pooled - 1) * stride >= side + pad:  # the last window must begin inside the image
            pooled -= 1
        found.append(pooled)
    return found


def _crops(graph: Graph, name: str, whole: Value, wanted: Value, axes: list[int]) -> list[Node]:
    """Return slices that make ``wanted`` of ``whole``, one for each of ``axes``."""
    nodes, value = [], whole
    for axis in axes:
        kept, size = wanted.shape[axis], value.shape[axis]
        crop = graph.fresh(f"{name}_{'rows' if axis == 2 else 'columns'}")
        tops = [
            wanted if axis == axes[-1] else Value(crop, _resized(value, axis, kept)),
            Value(graph.fresh(f"{crop}_rest"), _resized(value, axis, size - kept)),
        ]
        cut = {"axis": axis, "slice_point": [kept]}
        nodes.append(Node(LayerParameter(name=crop, type="Slice", slice_param=cut), [value], tops))
        value = tops[0]
    return nodes


def _resized(value: Value, axis: int, size: int) -> tuple[int, ...]:
    return *value.shape[:axis], size, *value.shape[axis + 1 :]


@dataclass(frozen=True)
class Folded:
    """A folded net, and which of its blobs and outputs correspond to those of the original net."""

    model: Model
    pairs: Mapping[str, str]
    """Blobs with equal contents after both nets have run: of the original net, and of this one."""
    heads: Mapping[str, str]
    """Output blobs of the original net, or the scores before an output Softmax; and the layer here that makes each, by
    OpenCV's name. OpenCV only returns a layer's first top: others are omitted.
    """
    makers: Mapping[str, LayerParameter]
    """The original net's :func:`~latent_domains.models.compare.makers`."""
    notes: tuple[str, ...]
    """Notes for the user."""


def fold(model: Model, *, stock: bool = True) -> Folded:
    """Fold a net for tests. ``stock`` False keeps ``pad_end`` of convolutions, which only our Caffe knows.

    Refuses Python layers that stock layers cannot replace, and parameters with impossible numbers.
    """
    net = load(model)
    shapes = {name: tuple(blob.shape) for name, blob in net.blobs.items()}
    graph = of_model(model, shapes)
    before = comparable_blobs(graph, {value: value.name for value in graph.values()})
    _remove_idle(graph)
    _name_apart(graph)
    domains = fold_assignments(graph)
    fold_assigned(graph, domains)
    _untranspose(graph)
    fold_maps(graph, domains)
    _note_batch_statistics(graph)
    crop_floor_pools(graph)
    spell_out(graph)
    if stock:
        even_pads(graph)
    graph.remove_unread()
    _refuse_python(graph)
    probabilities = [node for node in graph.nodes if node.type == "Softmax" and node.tops[0] in graph.outputs]
    heads = (graph.outputs | {node.bottoms[0] for node in probabilities}) & before.keys()
    folded, blobs = to_model(graph)
    after = comparable_blobs(graph, blobs)
    if others := [blobs[top] for node in graph.nodes for top in node.tops[1:] if top in graph.outputs]:
        graph.notes.append(f"not compared with OpenCV, which gives a layer's first top alone: {', '.join(others)}")
    return Folded(
        folded,
        {before[value]: after[value] for value in before if value in after},
        {before[top]: _opencv_name(node, blobs[top]) for node in graph.nodes for top in node.tops[:1] if top in heads},
        makers(model.net),
        tuple(graph.notes),
    )


def _remove_idle(graph: Graph) -> None:
    """Remove layers that do nothing in tests: Silence, and Dropout and Split that make no output.

    A layer that overwrote their copy gets its own blob.
    """
    for node in list(graph.nodes):
        if node.type == "Silence":
            graph.nodes.remove(node)
        elif node.type in ("Dropout", "Split") and not graph.outputs & set(node.tops):
            value = node.bottoms[0]
            in_place = node.tops[0].over is value
            for reader in graph.nodes:
                reader.bottoms = [value if bottom in node.tops else bottom for bottom in reader.bottoms]
                for top in reader.tops:
                    if in_place and top.over is node.tops[0]:
                        top.over = value
            graph.nodes.remove(node)


def _opencv_name(node: Node, top: str) -> str:
    """Return OpenCV's name of the layer that makes the blob ``top``: it names convolutions after their blobs."""
    return top if node.type == "Convolution" else node.name


def _name_apart(graph: Graph) -> None:
    """Give each layer its own name, by which OpenCV returns its output."""
    seen = {""}
    for node in graph.nodes:
        if node.name in seen:
            node.layer.name = graph.fresh(node.name or node.type)
        seen.add(node.name)


def _untranspose(graph: Graph) -> None:
    """Give inner products a row of weights for each of their outputs: OpenCV assumes this for all."""
    for node in graph.nodes:
        if node.type == "InnerProduct" and node.layer.inner_product_param.transpose:
            node.layer.inner_product_param.ClearField("transpose")
            node.blobs[0] = node.blobs[0].T


def _note_batch_statistics(graph: Graph) -> None:
    left = [node.name for node in graph.nodes if node.type == "BatchNorm" and not uses_running_statistics(node)]
    if left:
        graph.notes.append(
            f"{', '.join(left)}: not folded, use_global_stats: false takes the statistics of each batch: an image's "
            "result depends on the others in it"
        )


def _refuse_python(graph: Graph) -> None:
    left = [node for node in graph.nodes if node.type == "Python"]
    if left:
        which = "; ".join(f"{node.name} ({node.kind}{_why(node)})" for node in left)
        raise ProgramError(f"Python layers that stock layers cannot do the work of: {which}")


def _why(node: Node) -> str:
    if node.kind == "MDALayer":
        return ": it normalises by the batch's statistics, expected use_global_stats null or true"
    if node.kind == "DomainAssignmentLayer":
        return ": it reads domain labels"
    return ""
