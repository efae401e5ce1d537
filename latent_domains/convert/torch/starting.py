"""ImageNet's weights as nets begin from them: a network's checkpoint, converted."""

from collections.abc import Sequence
from pathlib import Path

from latent_domains.convert.options import ConverterOptions
from latent_domains.convert.torch import lite0_conversion, resnet_conversion
from latent_domains.experiment.networks import Network

_CONVERT = {"convert_resnet": resnet_conversion.convert, "convert_lite0": lite0_conversion.convert}
"""By the program."""


def convert_checkpoint(network: Network, checkpoint: Path, folder: Path, num_domains: Sequence[int]) -> None:
    """Write the caffemodels of a network that has a converter, in place of older ones: without mDA, and of each number.

    They have no classifier, and are compared with the checkpoint's net before that.
    """
    options = ConverterOptions(force=True)
    _CONVERT[network.converter](checkpoint, folder / network.name, options, head=False, num_domains=num_domains)


def is_converted(network: Network, checkpoint: Path, folder: Path, num_domains: Sequence[int]) -> bool:
    """Whether the caffemodels of these numbers (0: without mDA) stand and none is older than the checkpoint."""
    files = [folder / network.weights_name(number) for number in num_domains]
    return all(file.is_file() and file.stat().st_mtime >= checkpoint.stat().st_mtime for file in files)
