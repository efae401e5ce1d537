"""A checkpoint's net as PyTorch computes it, made from its tensors alone. Caffe's results are compared with it.

It runs in ONNX Runtime and shares nothing with the nets and weights that are made for Caffe: its tensors are the
checkpoint's, its input is R, G, B, and it pads the image before it normalises it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper

from latent_domains.convert.onnx.graph import OnnxGraph
from latent_domains.convert.torch.caffe_weights import Standardisation
from latent_domains.convert.torch.contents import Checkpoint
from latent_domains.convert.torch.onnx_resnet import OnnxNet
from latent_domains.convert.torch.tensors import STATISTICS
from latent_domains.models.model import Array
from latent_domains.models.onnx_runtime import Runtime
from latent_domains.nets import lite0, resnet

_SAME = {(3, 1): (1, 1), (5, 1): (2, 2), (3, 2): (0, 1), (5, 2): (1, 2)}
"""How TensorFlow pads an even number of pixels, above and left, and below and right; by kernel size and stride."""


@dataclass(frozen=True)
class TorchNet:
    """A checkpoint's net, with the names that Caffe's nets have for its blobs.

    ``head`` is the output of the scores, if there is one; ``pads`` are the pixels that its first convolution pads above
    and left, and below and right.
    """

    runtime: Runtime
    head: str | None
    standardisation: Standardisation
    pads: tuple[int, int]

    def run(self, pixels: Array, border: Sequence[float] | None = None) -> dict[str, Array]:
        """Every output for ``pixels`` (N×3×H×W; B, G, R, 0 to 255): of the stem, of all blocks, features and scores.

        ``border`` is the colour (B, G, R) around the image that the first convolution reads: by default the
        checkpoint's mean, which becomes the zeros that PyTorch pads with.
        """
        colour = self.standardisation.caffe_mean if border is None else border
        (before, after), (count, _, height, width) = self.pads, pixels.shape
        padded = np.empty((count, 3, before + height + after, before + width + after))
        padded[:] = np.array(colour, np.float64).reshape(1, 3, 1, 1)
        padded[:, :, before : before + height, before : before + width] = pixels
        return self.runtime.forward({"data": _entering(padded, self.standardisation)})


@dataclass(frozen=True)
class OwnNet:
    """The net as its file computes it. ``rebuilt`` computes images whose border has another colour than the mean.

    The file's own first convolution pads with zeros, which are the mean.
    """

    own: OnnxNet
    rebuilt: TorchNet

    @property
    def head(self) -> str | None:
        """The output of the scores, if there is one."""
        return self.rebuilt.head

    def run(self, pixels: Array, border: Sequence[float] | None = None) -> dict[str, Array]:
        """As :meth:`TorchNet.run`."""
        standardisation = self.rebuilt.standardisation
        if border is not None and tuple(border) != standardisation.caffe_mean:
            return self.rebuilt.run(pixels, border)
        found = self.own.forward(_entering(pixels, standardisation))
        return {name: found[name] for name in self.rebuilt.runtime.outputs}


def _entering(pixels: NDArray, standardisation: Standardisation) -> Array:
    """Pixels (N×3×H×W; B, G, R, 0 to 255) as the checkpoint's net takes them."""
    mean, std = (np.array(values).reshape(1, 3, 1, 1) for values in (standardisation.mean, standardisation.std))
    normalised = ((pixels[:, ::-1] / 255 - mean) / std).astype(np.float32)
    return normalised[:, ::-1] if standardisation.channels == "BGR" else normalised


class _TorchGraph:
    """The graph of a checkpoint's net, while it is made.

    The outputs are those of the stem and of every block, the features and, with a head, the scores, by Caffe's names.
    """

    def __init__(self, net: Checkpoint, stem: str, ends: Sequence[str], pooled: str) -> None:
        self._net, self._pooled = net, pooled
        self._scores = None if net.classes is None else f"fc{net.classes}"
        self._outputs = [stem, *ends, pooled, *([self._scores] if self._scores else [])]
        self.graph = OnnxGraph(["data", *self._outputs])
        self.constants = {name: self.graph.constant(name, array) for name, array in net.values.items()}

    def node(self, op: str, inputs: Sequence[str], output: str | None = None, **attributes: object) -> str:
        """Add a node; what it writes has the name ``output``, or one of its own."""
        written = output or self.graph.new_value(f"{op} of {inputs[0]}")
        self.graph.node(op, inputs, [written], written, **attributes)
        return written

    def unit(
        self,
        x: str,
        convolution: str,
        bn: str,
        stride: int = 1,
        pads: tuple[int, int] = (0, 0),
        *,
        group: int = 1,
        output: str | None = None,
    ) -> str:
        """A convolution, padded by so many pixels above and left, and below and right; and its BN."""
        sides = [pads[0]] * 2 + [pads[1]] * 2
        weights = self.constants[f"{convolution}.weight"]
        x = self.node("Conv", [x, weights], strides=[stride] * 2, pads=sides, group=group)
        statistics = [self.constants[f"{bn}.{statistic}"] for statistic in STATISTICS]
        return self.node("BatchNormalization", [x, *statistics], output, epsilon=self._net.architecture.eps)

    def relu6(self, x: str, output: str | None = None) -> str:
        """ReLU, and at most 6."""
        bounds = [self.graph.constant(f"bound {bound}", np.array(bound, np.float32)) for bound in (0, 6)]
        return self.node("Clip", [x, *bounds], output)

    def finished(self, x: str, standardisation: Standardisation, pads: tuple[int, int]) -> TorchNet:
        """The net that ends in the average of ``x`` and, if the checkpoint has it, in its classifier."""
        self.node("GlobalAveragePool", [x], self._pooled)
        if self._scores:
            classifier = self._net.architecture.classifier
            parts = [self.constants[f"{classifier}.{part}"] for part in ("weight", "bias")]
            self.node("Gemm", [self.node("Flatten", [self._pooled]), *parts], self._scores, transB=1)
        made = self.graph.model(
            self._net.architecture.name,
            [helper.make_tensor_value_info("data", TensorProto.FLOAT, ["N", "C", "H", "W"])],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, None) for output in self._outputs],
        )
        return TorchNet(Runtime(made.SerializeToString()), self._scores, standardisation, pads)


def torch_resnet(net: Checkpoint, standardisation: Standardisation) -> TorchNet:
    """A ResNet as PyTorch computes it."""
    blocks = list(resnet.blocks(net.architecture.depth))
    graph = _TorchGraph(net, "scale_conv1", [f"res{name}" for _, _, name in blocks], "pool5")
    x = graph.node("Relu", [graph.unit("data", "conv1", "bn1", 2)], "scale_conv1")
    x = graph.node("MaxPool", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for stage, place, name in blocks:
        block = f"layer{stage - 1}.{place}"
        stride = 2 if stage > 2 and place == 0 else 1
        if f"{block}.conv3.weight" in net.values:  # a bottleneck: its second convolution has the stride
            y = graph.node("Relu", [graph.unit(x, f"{block}.conv1", f"{block}.bn1")])
            y = graph.node("Relu", [graph.unit(y, f"{block}.conv2", f"{block}.bn2", stride, (1, 1))])
            y = graph.unit(y, f"{block}.conv3", f"{block}.bn3")
        else:
            y = graph.node("Relu", [graph.unit(x, f"{block}.conv1", f"{block}.bn1", stride, (1, 1))])
            y = graph.unit(y, f"{block}.conv2", f"{block}.bn2", 1, (1, 1))
        projected = f"{block}.downsample.0.weight" in net.values
        shortcut = graph.unit(x, f"{block}.downsample.0", f"{block}.downsample.1", stride) if projected else x
        x = graph.node("Relu", [graph.node("Add", [y, shortcut])], f"res{name}")
    return graph.finished(x, standardisation, (3, 3))


def torch_lite0(net: Checkpoint, standardisation: Standardisation) -> TorchNet:
    """EfficientNet-Lite0 as PyTorch computes it."""
    blocks = list(lite0.blocks())
    ends = [block.name if block.adds_input else f"{block.name}_project_scale" for block in blocks]
    graph = _TorchGraph(net, "conv1_bn", ends, lite0.POOLED)
    x = graph.relu6(graph.unit("data", "_conv_stem", "_bn0", 2), "conv1_bn")
    for place, (block, end) in enumerate(zip(blocks, ends, strict=True)):
        path, y = f"_blocks.{place}", x
        if f"{path}._expand_conv.weight" in net.values:
            y = graph.relu6(graph.unit(y, f"{path}._expand_conv", f"{path}._bn0"))
        kernel = net.values[f"{path}._depthwise_conv.weight"]
        pads = _SAME[kernel.shape[2], block.stride]
        y = graph.unit(y, f"{path}._depthwise_conv", f"{path}._bn1", block.stride, pads, group=len(kernel))
        output = None if block.adds_input else end
        y = graph.unit(graph.relu6(y), f"{path}._project_conv", f"{path}._bn2", output=output)
        x = graph.node("Add", [x, y], end) if block.adds_input else y
    x = graph.relu6(graph.unit(x, "_conv_head", "_bn1"))
    return graph.finished(x, standardisation, _SAME[3, 2])
