"""The fork's blobs and ours: one MDALayer's rows of statistics from the layers of its domains."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import caffe
import numpy as np

from latent_domains.common.program import ProgramError
from latent_domains.convert.fork.names import Names
from latent_domains.convert.fork.structure import MDAGroup
from latent_domains.models.model import Array, check_finite
from latent_domains.models.weights import check_weights, for_caffe

Blobs = dict[str, list[Array]]
"""The blobs of each layer by its name."""


def read_blobs(weights: Path, nets: Sequence[caffe.Net]) -> Blobs:
    """The blobs in a caffemodel of the fork, by layer.

    Raises ProgramError if it lacks a layer of the nets, holds one of another shape or one that they have not, or keeps
    its statistics in the older fork's way.
    """
    expected = dict.fromkeys(name for net in nets for name, blobs in net.params.items() if blobs)
    fit = check_weights(weights, nets, list(expected))
    if fit.unused:
        raise ProgramError(f"{weights}: it has {', '.join(fit.unused)} too, which the net has not: it is another net's")
    found: Blobs = {}
    with for_caffe(weights) as file:
        for net in nets:
            net.copy_from(str(file))
            found |= {name: [blob.data.copy() for blob in blobs] for name, blobs in net.params.items()}
    check_finite(found, weights)
    return found


def converted(blobs: Mapping[str, Sequence[Array]], groups: Iterable[MDAGroup], names: Names) -> Blobs:
    """The same blobs by our layers: the statistics of each group's domains as the rows of one mDA layer's."""
    found: Blobs = {}
    for group in groups:
        domains = [blobs[norm.name] for norm in group.norms]
        means, variances, divisors = (np.stack([domain[i] for domain in domains]) for i in range(3))
        found[names.mda[group.norms[0].name]] = [means, variances, divisors.reshape(-1)]
    others = {names.layers.get(name, name): list(values) for name, values in blobs.items() if name not in names.mda}
    return found | others
