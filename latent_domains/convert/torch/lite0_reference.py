"""EfficientNet-Lite0 as PyTorch computes it: see :mod:`latent_domains.convert.torch.torch_reference`."""

from latent_domains.convert.torch.lite0 import STANDARDISATION, Lite0
from latent_domains.convert.torch.torch_reference import TorchGraph, TorchNet
from latent_domains.nets.lite0 import EPS, POOLED, blocks

STEM = "conv1_bn"
"""Caffe's name for what the first convolution with its BN and ReLU6 gives."""

SAME = {(3, 1): (1, 1), (5, 1): (2, 2), (3, 2): (0, 1), (5, 2): (1, 2)}
"""How TensorFlow pads an even number of pixels, above and left, and below and right; by kernel size and stride."""


def torch_lite0(net: Lite0) -> TorchNet:
    """The outputs are those of the stem and of every block, the features and, with a head, the scores."""
    scores = None if net.classes is None else f"fc{net.classes}"
    ends = [block.name if block.adds_input else f"{block.name}_project_scale" for block in blocks()]
    graph = TorchGraph(net.values, [STEM, *ends, POOLED, *([scores] if scores else [])], EPS)
    x = graph.relu6(graph.unit("data", "_conv_stem", "_bn0", 2), STEM)
    for place, (block, end) in enumerate(zip(blocks(), ends, strict=True)):
        path, y = f"_blocks.{place}", x
        if f"{path}._expand_conv.weight" in net.values:
            y = graph.relu6(graph.unit(y, f"{path}._expand_conv", f"{path}._bn0"))
        kernel = net.values[f"{path}._depthwise_conv.weight"]
        pads = SAME[kernel.shape[2], block.stride]
        y = graph.unit(y, f"{path}._depthwise_conv", f"{path}._bn1", block.stride, pads, group=len(kernel))
        y = graph.relu6(y)
        added = block.adds_input
        y = graph.unit(y, f"{path}._project_conv", f"{path}._bn2", output=None if added else end)
        x = graph.node("Add", [x, y], end) if added else y
    x = graph.relu6(graph.unit(x, "_conv_head", "_bn1"))
    graph.head(x, POOLED, "_fc", scores)
    return TorchNet(graph.runtime("lite0"), scores, STANDARDISATION, SAME[3, 2])
