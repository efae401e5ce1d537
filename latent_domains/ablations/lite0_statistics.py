"""EfficientNet-Lite0 with the statistics that some pictures have in every BN, in place of ImageNet's: no training.

One BN after the other: its mean and variance are those of what its convolution makes of all the pictures, with every BN
before it recomputed already. So the features are those of a forward pass in training with all pictures in one batch.
"""

from dataclasses import replace
from itertools import groupby

import numpy as np

from latent_domains.convert.torch.contents import STATISTICS, Values
from latent_domains.convert.torch.lite0 import Lite0, Unit, units
from latent_domains.convert.torch.lite0_reference import SAME
from latent_domains.convert.torch.torch_reference import TorchGraph
from latent_domains.models.model import Array
from latent_domains.models.onnx_runtime import Runtime
from latent_domains.nets.lite0 import EPS, blocks


def with_statistics_of(pictures: Array, net: Lite0) -> tuple[Lite0, Array]:
    """The net with the statistics of ``pictures`` (N×3×H×W; B, G, R less 127), and their features in it (N×1280).

    All pictures' maps of one layer are kept at a time: of 224×224 pixels 7 MB a picture.
    """
    values = dict(net.values)
    adds_input = {block.name for block in blocks() if block.adds_input}
    x, before = pictures[:, ::-1] / np.float32(128), None
    for name, of_block in groupby(units(), lambda unit: unit.name.partition("_")[0]):
        shortcut = x
        for unit in of_block:
            x, mean, variance = _convolved(_runtime(unit, before, values), x)
            values[f"{unit.bn}.running_mean"], values[f"{unit.bn}.running_var"] = mean, variance
            before = unit  # its BN and ReLU6 are the next convolution's to apply
        if name.startswith("block"):  # ends without ReLU6
            _normalise(x, unit, values)
            before = None
        if name in adds_input:
            x += shortcut
    _normalise(x, unit, values)
    return replace(net, values=values), np.clip(x, 0, 6, out=x).mean(axis=(2, 3))


def _runtime(unit: Unit, before: Unit | None, values: Values) -> Runtime:
    """A convolution, behind the BN and the ReLU6 of the one ``before`` it if these are not applied yet.

    The outputs are ``y`` and each picture's ``mean`` of it and of its ``square``, by channel (N×C×1×1).
    """
    names = [f"{unit.convolution}.weight", *(f"{before.bn}.{part}" for part in STATISTICS if before)]
    graph = TorchGraph({name: values[name] for name in names}, ["y", "mean", "square"], EPS)
    x = "data"
    if before:
        x = graph.relu6(graph.batch_norm(x, before.bn))
    pads = SAME.get((unit.shape[2], unit.stride), (0, 0))
    group = 1 if unit.shape[1] > 1 else unit.shape[0]
    y = graph.convolution(x, unit.convolution, unit.stride, pads, group=group, output="y")
    graph.node("GlobalAveragePool", [y], "mean")
    graph.node("GlobalAveragePool", [graph.node("Mul", [y, y])], "square")
    return graph.runtime(unit.name)


def _convolved(runtime: Runtime, x: Array) -> tuple[Array, Array, Array]:
    """What a convolution makes of all pictures, and its mean and variance by channel."""
    y, moments = None, []
    for i in range(len(x)):  # one at a time stays in the processor's cache
        found = runtime.forward({"data": x[i : i + 1]})
        y = np.empty((len(x), *found["y"].shape[1:]), np.float32) if y is None else y
        y[i] = found["y"][0]
        moments.append([found["mean"].ravel(), found["square"].ravel()])
    mean, square = np.mean(moments, axis=0, dtype=np.float64)
    return y, mean.astype(np.float32), np.maximum(square - mean**2, 0).astype(np.float32)


def _normalise(x: Array, unit: Unit, values: Values) -> None:
    """Apply a BN, in place."""
    gamma, beta, mean, variance = (values[f"{unit.bn}.{part}"].reshape(-1, 1, 1) for part in STATISTICS)
    x -= mean
    x *= gamma / np.sqrt(variance + np.float32(EPS))
    x += beta
