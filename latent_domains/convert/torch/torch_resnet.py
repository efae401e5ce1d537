"""Weights of a ResNet as PyTorch holds them, in the layers of Caffe's nets.

PyTorch's input is R, G, B from 0 to 1, less a mean and over a standard deviation, x = (p/255 - m)/s, and so is the zero
that conv1 pads with. Caffe's is B, G, R from 0 to 255, less a mean M, with zeros around it. So conv1's channels change
their order and are multiplied by σ/s, where σ is the mean of s. Its output is then k = 255·σ times PyTorch's, so are
the mean and the deviation that its BN holds. This is exact where M = 255·m. With another M, conv1 gives Σ W (255·m - M)
too much: the mean of its BN, raised by as much, subtracts it again. Only at the border of the image something remains,
since what is padded with zeros is then M and no longer 255·m.

k stays out of conv1's weights, since BN makes their scale meaningless: k times smaller weights would have k times
larger gradients, and each step of training would change them k² times (some 3,300) as much as in PyTorch.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from latent_domains.convert.torch.resnet import EPS, ResNet, units
from latent_domains.experiment.datasets import DATASETS
from latent_domains.models.model import Array, Model
from latent_domains.nets.blocks import Normalisation
from latent_domains.nets.resnet import converted_net, convolution_name, normalisation_name

MOVING_AVERAGE_FRACTION = DATASETS["pacs"].recipe.moving_average_fraction
"""In the converted nets, as in the mDA nets that the weights are for."""


@dataclass(frozen=True)
class Standardisation:
    """What a checkpoint's net wants its pixels to be: (p/255 - mean)/std, each for R, G, B."""

    mean: tuple[float, float, float]
    std: tuple[float, float, float]

    @property
    def caffe_mean(self) -> tuple[float, ...]:
        """What Caffe subtracts so that conv1 pads as PyTorch does: of B, G, R, from 0 to 255."""
        return tuple(255 * value for value in reversed(self.mean))

    @property
    def factor(self) -> float:
        """How many times larger than PyTorch's the output of Caffe's conv1 is."""
        return 255 * float(np.mean(self.std))


def plain_model(net: ResNet, standardisation: Standardisation) -> Model:
    """The net itself, with BN and, if the checkpoint has it, the head; its input less ``caffe_mean``."""
    blobs = _blobs(net, standardisation, "bn", bn_blobs)
    if net.classes is not None:
        blobs[f"fc{net.classes}"] = [net.values["fc.weight"], net.values["fc.bias"]]
    return _model(net, Normalisation("bn", 0, MOVING_AVERAGE_FRACTION), net.classes, blobs)


def mda_model(net: ResNet, standardisation: Standardisation, num_domains: int, mean: Sequence[float]) -> Model:
    """The same up to pool5 with mDA in place of every BN but conv1's; its input less ``mean`` (B, G, R).

    Every one of the domains begins with the checkpoint's statistics.
    """
    blobs = _blobs(net, standardisation, "mda", partial(mda_blobs, num_domains))
    means = blobs[normalisation_name("bn", "conv1")][0]
    means += _surplus(blobs["conv1"][0], standardisation, mean).astype(np.float32)
    return _model(net, Normalisation("mda", num_domains, MOVING_AVERAGE_FRACTION), None, blobs)


def _model(net: ResNet, normalise: Normalisation, classes: int | None, blobs: Mapping[str, list[Array]]) -> Model:
    definition = converted_net(net.layers, normalise, classes).to_proto()
    definition.name = f"resnet{net.layers}" if normalise.layer == "bn" else f"resnet{net.layers}_{normalise.layer}"
    return Model(definition, blobs)


def _blobs(
    net: ResNet, standardisation: Standardisation, layer: str, statistics: Callable[[Array, Array], list[Array]]
) -> dict[str, list[Array]]:
    """Blobs of every convolution, its Scale and its ``layer`` (but conv1's, which is always BN), by their names."""
    blobs: dict[str, list[Array]] = {}
    for unit in units(net.layers):
        weights = net.values[f"{unit.convolution}.weight"]
        if unit.path == "conv1":
            weights = for_caffes_pixels(weights, standardisation)
            name, make = normalisation_name("bn", unit.path), partial(_bn_blobs_of_conv1, standardisation.factor)
        else:
            name, make = normalisation_name(layer, unit.path), statistics
        blobs[convolution_name(unit.path)] = [weights]
        blobs[name] = make(net.values[f"{unit.bn}.running_mean"], net.values[f"{unit.bn}.running_var"])
        blobs[normalisation_name("scale", unit.path)] = [net.values[f"{unit.bn}.{part}"] for part in ("weight", "bias")]
    return blobs


def bn_blobs(mean: Array, variance: Array) -> list[Array]:
    """Caffe's sums of means and of variances, and the divisor of both."""
    return [mean, variance, np.ones(1, np.float32)]


def _bn_blobs_of_conv1(factor: float, mean: Array, variance: Array) -> list[Array]:
    """BN's blobs where the input is ``factor`` times as large, with the same output to the last digit of ε."""
    larger = factor**2 * (variance.astype(np.float64) + EPS) - EPS
    return bn_blobs((factor * mean.astype(np.float64)).astype(np.float32), larger.astype(np.float32))


def mda_blobs(num_domains: int, mean: Array, variance: Array) -> list[Array]:
    """mDA's sums of means and of variances, and their divisors, the same for each domain."""
    return [*(np.tile(row, (num_domains, 1)) for row in (mean, variance)), np.ones(num_domains, np.float32)]


def for_caffes_pixels(weights: Array, standardisation: Standardisation) -> Array:
    """The first convolution (filters×3×h×w) for pixels B, G, R from 0 to 255: its output is ``factor`` times larger."""
    scale = standardisation.factor / (255 * np.array(standardisation.std[::-1]))
    return (weights[:, ::-1] * scale.reshape(1, 3, 1, 1)).astype(np.float32)


def _surplus(weights: Array, standardisation: Standardisation, mean: Sequence[float]) -> NDArray[np.float64]:
    """What conv1 gives more than it should (64), inside the image, if its input is less ``mean``."""
    per_channel = weights.astype(np.float64).sum(axis=(2, 3))
    return per_channel @ (np.array(standardisation.caffe_mean) - np.array(mean))
