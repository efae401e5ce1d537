"""Writes convolutions and pools as stock Caffe and OpenCV know them.

``pad_end`` of convolutions is ours alone (docker/patches): the kernel gets rows and columns of zeros on the side with
less padding. ``round_mode`` of pools is unknown to older Caffes and to OpenCV: rounding up puts the windows at the same
places, and adds at most one row and one column behind. One size for three axes is a division by zero in OpenCV.
"""

import numpy as np
from caffe.proto.caffe_pb2 import ConvolutionParameter, LayerParameter, PoolingParameter

from latent_domains.common.program import ProgramError
from latent_domains.models.graph import Graph, Node, Value
from latent_domains.models.windows import end_pads, pair


def even_pads(graph: Graph) -> None:
    """Leave ``pad_end`` out. Raises ProgramError naming a layer whose dilated kernel cannot grow so."""
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
    """Give convolutions of three axes, as of videos, a size for each axis where one stands for all."""
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
    """Leave ``round_mode`` out: where the sizes differ, slice off what rounding up adds (for inputs of this size)."""
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
    """Height and width that Caffe's pool makes of ``size`` when it rounds up. (A global pool makes 1×1.)"""
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
    """Slices that make ``wanted`` of ``whole``, one for each of ``axes``."""
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
