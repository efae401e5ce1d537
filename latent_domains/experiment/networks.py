"""The list of networks, and their weights. The facts about each are in its file in :mod:`latent_domains.networks`."""

import re
from pathlib import Path

from latent_domains.common.files import expect_file, sha256
from latent_domains.data.published_file import Unavailable, get, is_at_hand
from latent_domains.networks.alexnet import ALEXNET
from latent_domains.networks.alexnet_fc7 import ALEXNET_FC7
from latent_domains.networks.any_features import ANY_FEATURES as _OF_ANY_BACKBONE
from latent_domains.networks.lite0 import LITE0
from latent_domains.networks.mnist import MNIST
from latent_domains.networks.mobilenet_v2 import MOBILENET_V2
from latent_domains.networks.network import Pretrained
from latent_domains.networks.resnet import RESNET18, RESNET34, RESNET50

NETWORKS = {
    network.name: network
    for network in (
        MNIST,
        ALEXNET,
        ALEXNET_FC7,
        _OF_ANY_BACKBONE,
        RESNET18,
        RESNET34,
        RESNET50,
        LITE0,
        MOBILENET_V2,
    )
}
"""By name."""

ANY_FEATURES = _OF_ANY_BACKBONE.name
"""The network for stored features of any backbone, of any number."""

BACKBONES = {
    name: network.weights[0].file
    for name, network in NETWORKS.items()
    if network.backbone and network.weights[0].file.package
}
"""Weights of the backbones that Python packages contain, by network. Nets on their features are exported with them."""


PRETRAINED = {weights.name: weights for network in NETWORKS.values() for weights in network.weights}
"""By name."""


def of_network(network: str) -> tuple[Pretrained, ...]:
    """Return the weights that a network can begin from, preferred ones first; none for nets that begin at random."""
    return tuple(weights for weights in PRETRAINED.values() if weights.network == network)


def whose(caffemodel: str) -> Pretrained | None:
    """Return the weights from which a caffemodel of this name is made, if they are known."""
    return next((weights for weights in PRETRAINED.values() if weights.made(caffemodel)), None)


def published(file: Path) -> Pretrained | None:
    """Return the weights in a file, identified by its hash, if they are known."""
    found = sha256(file)
    return next((weights for weights in PRETRAINED.values() if weights.file.hashes["sha256"] == found), None)


def expect_caffemodel(file: Path) -> None:
    """Raise ProgramError unless it is a file; the error names the command that makes weights of such a name."""
    hint = ""
    if weights := whose(file.name):
        domains = re.search(r"_mda(\d+)\.", file.name)
        options = f" --num-domains {domains[1]}" if domains else ""
        hint = f" (from: python -m tools.get_weights {weights.name}{options})"
    expect_file(file, f"a caffemodel{hint}")


def at_hand(network: str, folder: Path) -> Pretrained:
    """Return the weights that nets of a network begin from, in ``folder``.

    These are the first weights found there or in the mirror; otherwise the preferred ones, to be downloaded.
    """

    def is_here(weights: Pretrained) -> bool:
        made = folder.glob(f"{weights.name}*.caffemodel")
        return is_at_hand(weights.file, folder) or any(weights.made(file.name) for file in made)

    choices = of_network(network)
    return next(filter(is_here, choices), choices[0])


def get_pretrained(
    weights: Pretrained, folder: Path, mirror: Path | None = None, *, force: bool = False
) -> tuple[Pretrained, Path]:
    """Fetch weights into a folder; return them and their file, checked.

    If the preferred weights of a network cannot be fetched and others exist locally, use these and say so.
    """
    try:
        return weights, get(weights.file, folder, mirror, force=force)
    except Unavailable as error:
        first, *others = of_network(weights.network)
        found = [other for other in others if weights is first and is_at_hand(other.file, folder, mirror)]
        if not found:
            raise
        print(f"note: {weights.title} cannot be fetched: {str(error).splitlines()[0].rstrip(':')}")
        print(f"note: {found[0].title} exists and is used instead")
        return found[0], get(found[0].file, folder, mirror, force=force)
