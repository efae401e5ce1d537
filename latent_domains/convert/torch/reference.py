"""A checkpoint's net as PyTorch computes it, made only from its tensors, for comparison with Caffe's results.

It runs in ONNX Runtime and shares nothing with the nets and weights that are made for Caffe: its tensors are the
checkpoint's, its input is R, G, B, and it pads the image before it normalises it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper

from latent_domains.convert.onnx.layer import OnnxGraph
from latent_domains.convert.torch.onnx_resnet import OnnxNet
from latent_domains.convert.torch.read import Checkpoint
from latent_domains.models.model import Array
from latent_domains.models.onnx_file import Runtime
from latent_domains.networks.network import STATISTICS, Standardisation


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
        """Return every output for ``pixels`` (N×3×H×W; B, G, R, 0 to 255): the stem, all blocks, features and scores.

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
        """Do the same as :meth:`TorchNet.run`."""
        standardisation = self.rebuilt.standardisation
        if border is not None and tuple(border) != standardisation.caffe_mean:
            return self.rebuilt.run(pixels, border)
        found = self.own.forward(_entering(pixels, standardisation))
        return {name: found[name] for name in self.rebuilt.runtime.outputs}


def _entering(pixels: NDArray, standardisation: Standardisation) -> Array:
    """Return pixels (N×3×H×W; B, G, R, 0 to 255) as input of the checkpoint's net."""
    mean, std = (np.array(values).reshape(1, 3, 1, 1) for values in (standardisation.mean, standardisation.std))
    normalised = ((pixels[:, ::-1] / 255 - mean) / std).astype(np.float32)
    return normalised[:, ::-1] if standardisation.channels == "BGR" else normalised


class TorchGraph:
    """The graph of a checkpoint's net, while it is made. Values that get Caffe's names are outputs.

    ``values`` are the checkpoint's tensors.
    """

    def __init__(self, net: Checkpoint) -> None:
        self._net, self._outputs, self._pads = net, [], (0, 0)
        self._graph = OnnxGraph(["data"])
        self.values = net.values
        self._constants = {name: self._graph.constant(name, array) for name, array in net.values.items()}

    def node(self, op: str, inputs: Sequence[str], output: str | None = None, **attributes: object) -> str:
        """Add a node; its output has the name ``output``, or its own."""
        written = self._graph.new_value(output or f"{op} of {inputs[0]}")
        self._outputs += [written] if output else []
        self._graph.node(op, inputs, [written], written, **attributes)
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
        """Add a convolution, padded by ``pads`` pixels above and left, and below and right; and its BN.

        The one that reads "data" is padded outside of the graph, with any colour.
        """
        if x == "data":
            self._pads, pads = pads, (0, 0)
        sides = [pads[0]] * 2 + [pads[1]] * 2
        weights = self._constants[f"{convolution}.weight"]
        x = self.node("Conv", [x, weights], strides=[stride] * 2, pads=sides, group=group)
        statistics = [self._constants[f"{bn}.{statistic}"] for statistic in STATISTICS]
        return self.node("BatchNormalization", [x, *statistics], output, epsilon=self._net.network.torch.eps)

    def relu(self, x: str, output: str | None = None) -> str:
        return self.node("Relu", [x], output)

    def relu6(self, x: str, output: str | None = None) -> str:
        """Add a ReLU with a maximum of 6."""
        bounds = [self._graph.constant(f"bound {bound}", np.array(bound, np.float32)) for bound in (0, 6)]
        return self.node("Clip", [x, *bounds], output)

    def finished(self, x: str, standardisation: Standardisation) -> TorchNet:
        """Return the net that ends in the average of ``x`` and, if the checkpoint has it, in its classifier."""
        known, classes = self._net.network.torch, self._net.classes
        x, head = self.node("GlobalAveragePool", [x], known.pooled), None
        if classes is not None:
            parts = [self._constants[f"{known.classifier}.{part}"] for part in ("weight", "bias")]
            head = self.node("Gemm", [self.node("Flatten", [x]), *parts], f"fc{classes}", transB=1)
        made = self._graph.model(
            self._net.network.name,
            [helper.make_tensor_value_info("data", TensorProto.FLOAT, ["N", "C", "H", "W"])],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, None) for output in self._outputs],
        )
        return TorchNet(Runtime(made.SerializeToString()), head, standardisation, self._pads)


def torch_net(net: Checkpoint, standardisation: Standardisation) -> TorchNet:
    """Return a checkpoint's net as PyTorch computes it."""
    graph = TorchGraph(net)
    return graph.finished(net.network.torch.reference(graph), standardisation)
