"""Writes convolutions whose pads before and behind differ with the same pads on all sides.

``pad_end`` is ours alone (docker/patches). The kernel gets rows and columns of zeros on the side where there is less.
"""

import numpy as np
from caffe.proto.caffe_pb2 import ConvolutionParameter

from latent_domains.common.program import ProgramError
from latent_domains.models.graph import Graph
from latent_domains.models.windows import end_pads, pair


def even_pads(graph: Graph) -> None:
    """Leave ``pad_end`` out. Raises ProgramError naming a layer whose dilated kernel cannot grow so."""
    for node in graph.nodes:
        given = node.layer.convolution_param
        pads, ends = pair(given, "pad", "pad", 0), end_pads(given)
        if pads == ends:
            continue
        steps = pair(given, "dilation", "dilation", 1)
        if any((end - pad) % step for pad, end, step in zip(pads, ends, steps, strict=True)):
            raise ProgramError(
                f"layer {node.said}: pad_end {ends}, expected pad {pads} and a multiple of dilation {steps}"
            )
        more = [(end - pad) // step for pad, end, step in zip(pads, ends, steps, strict=True)]
        zeros = [(max(rows, 0), max(-rows, 0)) for rows in more]
        node.blobs[0] = np.pad(node.blobs[0], [(0, 0), (0, 0), *zeros])
        for field in ("pad", "pad_h", "pad_w", "pad_end", "kernel_size", "kernel_h", "kernel_w"):
            given.ClearField(field)
        _say(given, "kernel", "kernel_size", *node.blobs[0].shape[2:])
        _say(given, "pad", "pad", *map(max, pads, ends))


def _say(given: ConvolutionParameter, stem: str, field: str, height: int, width: int) -> None:
    if height == width:
        getattr(given, field).append(height)
    else:
        setattr(given, f"{stem}_h", height)
        setattr(given, f"{stem}_w", width)
