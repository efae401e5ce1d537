"""Weights of a checkpoint in the layers of Caffe's nets.

PyTorch's input is R, G, B from 0 to 1, less a mean and over a standard deviation, x = (p/255 - m)/s, and so is the zero
that conv1 pads with. Caffe's is B, G, R from 0 to 255, less a mean M and times a scale c, with zeros around it. So
conv1's channels change their order and are multiplied by σ/s, where σ is the mean of s. Its output is then k = 255·σ·c
times PyTorch's, so are the mean and the deviation that its BN holds. This is exact where M = 255·m. With another M,
conv1 gives Σ W c (255·m - M) too much: the mean of its BN, raised by as much, subtracts it again. Only at the border of
the image something remains, since what is padded with zeros is then M and no longer 255·m. A net that takes B, G, R, as
CNTK's does, keeps the order of its channels.

k stays out of conv1's weights, since BN makes their scale meaningless: k times smaller weights would have k times
larger gradients, and each step of training would change them k² times (some 3,300) as much as in PyTorch.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from caffe import NetSpec
from caffe import layers as L
from numpy.typing import NDArray

from latent_domains.convert.torch.contents import Checkpoint
from latent_domains.experiment.datasets import input_of
from latent_domains.experiment.experiment import make_experiment
from latent_domains.models.model import Array, Model
from latent_domains.networks.blocks import GAUSSIAN, Normalisation, inner_product
from latent_domains.networks.network import STATISTICS, Network, Standardisation

_TRAINED = make_experiment("pacs", "mda")
"""Converted nets have the geometry and the moving averages of the nets that the weights are for."""


@dataclass(frozen=True)
class Pixels:
    """The input of a net in Caffe: B, G, R from 0 to 255, less ``mean`` and times ``scale``."""

    mean: Sequence[float]
    scale: float = 1.0

    def entering(self, pixels: Array) -> Array:
        """Pixels (N×3×H×W) as the net takes them."""
        return (pixels - np.array(self.mean, np.float32).reshape(1, 3, 1, 1)) * np.float32(self.scale)


def usual_pixels(network: Network, standardisation: Standardisation) -> Pixels:
    """The input with which a checkpoint's own net is exact in Caffe: the network's, or less the checkpoint's mean."""
    return Pixels(network.pixels.mean, network.pixels.scale) if network.pixels else Pixels(standardisation.caffe_mean)


def caffe_model(net: Checkpoint, standardisation: Standardisation, pixels: Pixels, num_domains: int = 0) -> Model:
    """A net for Caffe that takes ``pixels``: the checkpoint's own, with BN and, if it has one, the head.

    With ``num_domains`` it ends in the features, and mDA replaces every BN but conv1's: every one of the
    domains begins with the checkpoint's statistics.
    """
    known, layer, classes = net.network.torch, "bn", net.classes
    if num_domains:
        layer, classes = "mda", None
    blobs: dict[str, list[Array]] = {}
    for unit in known.units:
        weights = net.values[f"{unit.convolution}.weight"]
        gamma, beta, mean, variance = (net.values[f"{unit.bn}.{statistic}"] for statistic in STATISTICS)
        if unit is known.units[0]:
            factor = 255 * float(np.mean(standardisation.std)) * pixels.scale
            weights = for_caffes_pixels(weights, standardisation)
            larger = factor**2 * (variance.astype(np.float64) + known.eps) - known.eps
            moved = factor * mean.astype(np.float64) + surplus(weights, standardisation, pixels)
            norm, statistics = "bn", bn_blobs(moved.astype(np.float32), larger.astype(np.float32))
        else:
            norm, statistics = layer, bn_blobs(mean, variance, num_domains)
        blobs[unit.name] = [weights]
        blobs[unit.norm.format(layer=norm)] = statistics
        blobs[unit.norm.format(layer="scale")] = [gamma, beta]
    if classes is not None:
        blobs[f"fc{classes}"] = [net.values[f"{known.classifier}.{part}"] for part in ("weight", "bias")]
    definition = converted_net(net.network, layer, num_domains, classes).to_proto()
    definition.name = f"{net.network.name}_{layer}" if num_domains else net.network.name
    if net.own:
        definition.layer[0].input_param.shape[0].dim[2:] = net.own.size
    return Model(definition, blobs)


def converted_net(network: Network, layer: str, num_domains: int, classes: int | None) -> NetSpec:
    """A network as its weights come from PyTorch, normalised by ``layer``: the deploy net of no experiment.

    conv1 keeps a plain BN. With ``classes`` it ends in their probabilities, and its head is called after their number
    (fc1000), never like an experiment's classifier; without, in the features.
    """
    n = NetSpec()
    n.data = L.Input(shape={"dim": [1, *input_of(network).shape]})
    normalise = Normalisation(layer, num_domains, _TRAINED.recipe.moving_average_fraction)
    x = network.features(n, network.stem(n, n.data, _TRAINED), normalise, _TRAINED)
    if classes is not None:
        n.prob = L.Softmax(inner_product(n, f"fc{classes}", x, classes, bias=True, filler=GAUSSIAN))
    return n


def bn_blobs(mean: Array, variance: Array, num_domains: int = 0) -> list[Array]:
    """Sums of means and of variances and their divisors: of Caffe's BN or, for domains, of mDA, the same for each."""
    if not num_domains:
        return [mean, variance, np.ones(1, np.float32)]
    return [*(np.tile(row, (num_domains, 1)) for row in (mean, variance)), np.ones(num_domains, np.float32)]


def for_caffes_pixels(weights: Array, standardisation: Standardisation) -> Array:
    """The first convolution (filters×3×h×w) for B, G, R, whose deviations are all the mean of theirs."""
    scale = np.mean(standardisation.std) / np.array(standardisation.std[::-1])
    in_order = weights if standardisation.channels == "BGR" else weights[:, ::-1]
    return (in_order * scale.reshape(1, 3, 1, 1)).astype(np.float32)


def surplus(weights: Array, standardisation: Standardisation, pixels: Pixels) -> NDArray[np.float64]:
    """The error of conv1's outputs (filters) inside the image, if its input has another mean."""
    per_channel = weights.astype(np.float64).sum(axis=(2, 3))
    return pixels.scale * per_channel @ (np.array(standardisation.caffe_mean) - np.array(pixels.mean))
