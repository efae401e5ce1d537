"""A checkpoint's net as PyTorch computes it, made from its tensors alone, to hold what Caffe computes against it.

It runs in ONNX Runtime and shares nothing with the nets and weights that are made for Caffe: its tensors are the
checkpoint's, its input is R, G, B, and it pads the image before it normalises it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from onnx import TensorProto, helper

from latent_domains.convert.onnx.graph import OnnxGraph
from latent_domains.convert.torch.contents import STATISTICS, Values
from latent_domains.convert.torch.resnet import EPS, ResNet
from latent_domains.convert.torch.torch_resnet import Standardisation
from latent_domains.models.model import Array
from latent_domains.models.onnx_runtime import Runtime
from latent_domains.nets.resnet import blocks

STEM, POOLED = "scale_conv1", "pool5"
"""Caffe's names for what a ResNet's conv1 with its BN and ReLU gives, and for the features before the classifier."""


@dataclass(frozen=True)
class TorchNet:
    """A checkpoint's net, with the names that Caffe's nets have for its blobs.

    ``head`` is the output that holds the scores, if there is one; ``pads`` are the pixels that its first convolution
    pads above and left, and below and right.
    """

    runtime: Runtime
    head: str | None
    standardisation: Standardisation
    pads: tuple[int, int]

    def run(self, pixels: Array, border: Sequence[float] | None = None) -> dict[str, Array]:
        """Every output for ``pixels`` (N×3×H×W; B, G, R, 0 to 255): of the stem, of all blocks, features and scores.

        ``border`` is the colour (B, G, R) that the image goes on in where the first convolution reaches over its
        border: by default the checkpoint's mean, which its normalisation makes the zeros that PyTorch pads with.
        """
        colour = self.standardisation.caffe_mean if border is None else border
        (before, after), (count, _, height, width) = self.pads, pixels.shape
        padded = np.empty((count, 3, before + height + after, before + width + after))
        padded[:] = np.array(colour, np.float64).reshape(1, 3, 1, 1)
        padded[:, :, before : before + height, before : before + width] = pixels
        mean, std = (
            np.array(values).reshape(1, 3, 1, 1) for values in (self.standardisation.mean, self.standardisation.std)
        )
        normalised = ((padded[:, ::-1] / 255 - mean) / std).astype(np.float32)
        return self.runtime.forward({"data": normalised})


class TorchGraph:
    """The graph of a net with a checkpoint's ``values``, while it is made. Its ``outputs`` have Caffe's names."""

    def __init__(self, values: Values, outputs: Sequence[str], eps: float) -> None:
        self.graph = OnnxGraph(["data", *outputs])
        self.constants = {name: self.graph.constant(name, array) for name, array in values.items()}
        self._outputs, self._eps = outputs, eps

    def node(self, op: str, inputs: Sequence[str], output: str | None = None, **attributes: object) -> str:
        """Add a node; what it writes has the name ``output``, or one of its own."""
        written = output or self.graph.new_value(f"{op} of {inputs[0]}")
        self.graph.node(op, inputs, [written], written, **attributes)
        return written

    def convolution(
        self,
        x: str,
        convolution: str,
        stride: int = 1,
        pads: tuple[int, int] = (0, 0),
        *,
        group: int = 1,
        output: str | None = None,
    ) -> str:
        """A convolution, padded by so many pixels above and left, and below and right."""
        return self.node(
            "Conv",
            [x, self.constants[f"{convolution}.weight"]],
            output,
            strides=[stride] * 2,
            pads=[pads[0]] * 2 + [pads[1]] * 2,
            group=group,
        )

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
        """A convolution and its BN."""
        return self.batch_norm(self.convolution(x, convolution, stride, pads, group=group), bn, output)

    def batch_norm(self, x: str, bn: str, output: str | None = None) -> str:
        """A BN with the checkpoint's statistics."""
        statistics = [self.constants[f"{bn}.{statistic}"] for statistic in STATISTICS]
        return self.node("BatchNormalization", [x, *statistics], output, epsilon=self._eps)

    def relu6(self, x: str, output: str | None = None) -> str:
        """ReLU, and at most 6."""
        bounds = [self.graph.constant(f"bound {bound}", np.array(bound, np.float32)) for bound in (0, 6)]
        return self.node("Clip", [x, *bounds], output)

    def head(self, x: str, pooled: str, classifier: str, scores: str | None) -> None:
        """The features, by the name ``pooled``, and the ``scores`` that a ``classifier`` makes of them."""
        self.node("GlobalAveragePool", [x], pooled)
        if scores:
            parts = [self.constants[f"{classifier}.{part}"] for part in ("weight", "bias")]
            self.node("Gemm", [self.node("Flatten", [pooled]), *parts], scores, transB=1)

    def runtime(self, name: str) -> Runtime:
        """The whole, ready to run."""
        made = self.graph.model(
            name,
            [helper.make_tensor_value_info("data", TensorProto.FLOAT, ["N", "C", "H", "W"])],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, None) for output in self._outputs],
        )
        return Runtime(made.SerializeToString())


def torch_resnet(net: ResNet, standardisation: Standardisation) -> TorchNet:
    """A ResNet: the outputs are those of the stem and of every block, the features and, with a head, the scores."""
    scores = None if net.classes is None else f"fc{net.classes}"
    outputs = [STEM, *(f"res{name}" for _, _, name in blocks(net.layers)), POOLED, *([scores] if scores else [])]
    graph = TorchGraph(net.values, outputs, EPS)
    x = graph.node("Relu", [graph.unit("data", "conv1", "bn1", 2)], STEM)
    x = graph.node("MaxPool", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for stage, place, name in blocks(net.layers):
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
    graph.head(x, POOLED, "fc", scores)
    return TorchNet(graph.runtime(f"resnet{net.layers}"), scores, standardisation, (3, 3))
