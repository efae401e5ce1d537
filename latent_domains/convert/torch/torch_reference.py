"""A checkpoint's net as PyTorch computes it, made from its tensors alone, to hold what Caffe computes against it.

It runs in ONNX Runtime and shares nothing with the nets and weights that are made for Caffe: its tensors are the
checkpoint's, its input is R, G, B, and it pads the image before it normalises it.
"""

from collections.abc import Sequence

import numpy as np
from onnx import TensorProto, helper

from latent_domains.convert.onnx.graph import OnnxGraph
from latent_domains.convert.onnx.verification import Runtime
from latent_domains.convert.torch.resnet import EPS, ResNet
from latent_domains.convert.torch.torch_resnet import Standardisation
from latent_domains.models.model import Array
from latent_domains.nets.resnet import blocks

STEM, POOLED = "scale_conv1", "pool5"
"""Caffe's names for what conv1 with its BN and ReLU gives, and for the features before the classifier."""

_BORDER = 3
"""Pixels that conv1 pads with."""


class TorchNet:
    """A checkpoint's net, with the names that Caffe's nets have for its blobs."""

    def __init__(self, net: ResNet, standardisation: Standardisation) -> None:
        self._standardisation = standardisation
        self.outputs = [STEM, *(f"res{name}" for _, _, name in blocks(net.layers)), POOLED]
        self.head = None if net.classes is None else f"fc{net.classes}"
        if self.head:
            self.outputs.append(self.head)
        self._runtime = Runtime(self._model(net))

    def run(self, pixels: Array, border: Sequence[float] | None = None) -> dict[str, Array]:
        """The stem's output, every block's, the features and the logits for ``pixels`` (N×3×H×W; B, G, R, 0 to 255).

        ``border`` is the colour (B, G, R) that the image goes on in where conv1 reaches over its border: by default the
        checkpoint's mean, which its normalisation makes the zeros that PyTorch pads with.
        """
        colour = self._standardisation.caffe_mean if border is None else border
        count, _, height, width = pixels.shape
        padded = np.empty((count, 3, height + 2 * _BORDER, width + 2 * _BORDER))
        padded[:] = np.array(colour, np.float64).reshape(1, 3, 1, 1)
        padded[:, :, _BORDER:-_BORDER, _BORDER:-_BORDER] = pixels
        mean, std = (
            np.array(values).reshape(1, 3, 1, 1) for values in (self._standardisation.mean, self._standardisation.std)
        )
        normalised = ((padded[:, ::-1] / 255 - mean) / std).astype(np.float32)
        return self._runtime.forward({"data": normalised})

    def _model(self, net: ResNet) -> bytes:
        graph = OnnxGraph(["data", *self.outputs])
        constants = {name: graph.constant(name, values) for name, values in net.values.items()}

        def unit(x: str, convolution: str, bn: str, stride: int, pad: int) -> str:
            weights = constants[f"{convolution}.weight"]
            y, z = graph.new_value(f"{convolution}.y"), graph.new_value(f"{bn}.y")
            graph.node("Conv", [x, weights], [y], convolution, strides=[stride] * 2, pads=[pad] * 4)
            statistics = [constants[f"{bn}.{part}"] for part in ("weight", "bias", "running_mean", "running_var")]
            graph.node("BatchNormalization", [y, *statistics], [z], bn, epsilon=EPS)
            return z

        def relu(x: str, output: str) -> str:
            graph.node("Relu", [x], [output], f"relu of {x}")
            return output

        x = relu(unit("data", "conv1", "bn1", 2, 0), STEM)
        x_pooled = graph.new_value("maxpool")
        graph.node("MaxPool", [x], [x_pooled], "maxpool", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
        x = x_pooled
        for stage, place, name in blocks(net.layers):
            block = f"layer{stage - 1}.{place}"
            stride = 2 if stage > 2 and place == 0 else 1
            if f"{block}.conv3.weight" in constants:  # a bottleneck: its second convolution has the stride
                y = relu(unit(x, f"{block}.conv1", f"{block}.bn1", 1, 0), graph.new_value(f"{block}.relu1"))
                y = relu(unit(y, f"{block}.conv2", f"{block}.bn2", stride, 1), graph.new_value(f"{block}.relu2"))
                y = unit(y, f"{block}.conv3", f"{block}.bn3", 1, 0)
            else:
                y = relu(unit(x, f"{block}.conv1", f"{block}.bn1", stride, 1), graph.new_value(f"{block}.relu"))
                y = unit(y, f"{block}.conv2", f"{block}.bn2", 1, 1)
            projected = f"{block}.downsample.0.weight" in constants
            shortcut = unit(x, f"{block}.downsample.0", f"{block}.downsample.1", stride, 0) if projected else x
            total = graph.new_value(f"{block}.sum")
            graph.node("Add", [y, shortcut], [total], f"{block}.sum")
            x = relu(total, f"res{name}")
        graph.node("GlobalAveragePool", [x], [POOLED], "avgpool")
        if self.head:
            flat = graph.new_value("flat")
            graph.node("Flatten", [POOLED], [flat], "flatten")
            parts = [constants["fc.weight"], constants["fc.bias"]]
            graph.node("Gemm", [flat, *parts], [self.head], "fc", transB=1)
        made = graph.model(
            f"resnet{net.layers}",
            [helper.make_tensor_value_info("data", TensorProto.FLOAT, ["N", 3, "H", "W"])],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in self.outputs],
        )
        return made.SerializeToString()
