"""EfficientNet-Lite0 with the statistics that some pictures have in every BN, in place of ImageNet's: no training.

One BN after the other: its mean and variance are those of what its convolution makes of all the pictures, with every BN
before it recomputed already. So the features are those of a forward pass in training with all pictures in one batch.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np

from latent_domains.convert.onnx.verification import Runtime
from latent_domains.convert.torch.contents import STATISTICS, Values
from latent_domains.convert.torch.lite0 import EPS, Lite0, Unit, units
from latent_domains.convert.torch.lite0_reference import SAME
from latent_domains.convert.torch.torch_reference import TorchGraph
from latent_domains.models.model import Array
from latent_domains.nets.lite0 import blocks

PICTURES = 4
"""At a time: what is between two convolutions is large, and best never leaves the processor's cache."""


def with_statistics_of(pictures: Array, net: Lite0) -> tuple[Lite0, Array]:
    """The net with the statistics of ``pictures`` (N×3×H×W; B, G, R less 127), and their features in it (N×1280)."""
    values = dict(net.values)
    x = pictures[:, ::-1] / np.float32(128)
    adds_input = {block.name for block in blocks() if block.adds_input}
    for name, of_block in groupby(units(), _block):
        chain = list(of_block)
        for end, unit in enumerate(chain, 1):
            y, mean, variance = _run(_runtime(chain[:end], values, keeps=end == len(chain)), x)
            values[f"{unit.bn}.running_mean"], values[f"{unit.bn}.running_var"] = mean, variance
        gamma, beta = (values[f"{unit.bn}.{part}"].reshape(-1, 1, 1) for part in ("weight", "bias"))
        y -= mean.reshape(-1, 1, 1)
        y *= gamma / np.sqrt(variance + np.float32(EPS)).reshape(-1, 1, 1)
        y += beta
        if name in adds_input:
            y += x
        x = y
    return replace(net, values=values), np.clip(x, 0, 6, out=x).mean(axis=(2, 3))


def _block(unit: Unit) -> str:
    """The first convolution, whose maps are the largest, goes with the first block, so that they are not kept."""
    return unit.name.partition("_")[0].replace("conv1", "block1a")


def _runtime(chain: Sequence[Unit], values: Values, *, keeps: bool) -> Runtime:
    """A chain of convolutions with BN and ReLU6 between them.

    The outputs are each picture's ``mean`` and ``variance`` by channel (N×C×1×1) after the last of them and, if it
    ``keeps`` that, what it is of: ``y``.
    """
    names = [f"{unit.convolution}.weight" for unit in chain]
    names += [f"{unit.bn}.{part}" for unit in chain[:-1] for part in STATISTICS]
    graph = TorchGraph({name: values[name] for name in names}, ["mean", "variance", *(["y"] if keeps else [])], EPS)
    bounds = [graph.graph.constant(f"bound {bound}", np.array(bound, np.float32)) for bound in (0, 6)]
    x = "data"
    for unit in chain:
        geometry = unit.stride, SAME.get((unit.shape[2], unit.stride), (0, 0))
        group = 1 if unit.shape[1] > 1 else unit.shape[0]
        if unit is not chain[-1]:
            x = graph.node("Clip", [graph.unit(x, unit.convolution, unit.bn, *geometry, group=group), *bounds])
        else:
            x = graph.convolution(x, unit.convolution, *geometry, group=group, output="y" if keeps else None)
    less_mean = graph.node("Sub", [x, graph.node("ReduceMean", [x], "mean", axes=[2, 3])])
    graph.node("ReduceMean", [graph.node("Mul", [less_mean, less_mean])], "variance", axes=[2, 3])
    return graph.runtime("lite0 as far as it is known")


def _run(runtime: Runtime, x: Array) -> tuple[Array | None, Array, Array]:
    """What a chain gives for all pictures, if it keeps it, and its mean and variance over them by channel."""
    y, means, variances = None, [], []
    for first in range(0, len(x), PICTURES):
        found = runtime.forward({"data": x[first : first + PICTURES]})
        means.append(found["mean"])
        variances.append(found["variance"])
        if "y" in found:
            y = np.empty((len(x), *found["y"].shape[1:]), np.float32) if y is None else y
            y[first : first + PICTURES] = found["y"]
    mean, variance = (np.concatenate(rows).astype(np.float64) for rows in (means, variances))
    total = variance.mean(axis=(0, 2, 3)) + mean.var(axis=(0, 2, 3))  # the law of total variance
    return y, mean.mean(axis=(0, 2, 3)).astype(np.float32), total.astype(np.float32)
