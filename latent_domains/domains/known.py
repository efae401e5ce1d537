"""Domains that are known: the sources."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from latent_domains.domains.pictures import Pictures, W, one_hot


def assign(images: Pictures, k: int, seed: int, share: float = 1.0) -> W:
    """The source of a ``share`` of the pictures of each source, drawn by ``seed``; the others are unknown."""
    sources = images.known_sources
    if share < 1:
        sources = np.where(np.concatenate(choose_known(images.counts, share, seed)), sources, -1)
    return one_hot(sources, k)


def known_of(n: int, share: float) -> int:
    """How many of ``n`` samples are known: ``share`` of them, a half rounded up."""
    return int(np.floor(share * n + 0.5))


def choose_known(counts: Sequence[int], share: float, seed: int) -> list[NDArray[np.bool_]]:
    """Choose which samples keep their domain label: exactly ``share`` of each domain, drawn by ``seed``.

    ``counts`` holds the number of records of each domain; the result one mask per domain (true: known). In a domain of
    n records floor(share·n + 1/2) are known. A larger share with the same seed keeps everyone a smaller one kept,
    and a domain's choice does not depend on the other domains' sizes.
    """
    masks = []
    for domain, n in enumerate(counts):
        mask = np.zeros(n, bool)
        mask[np.random.default_rng([seed, domain]).permutation(n)[: known_of(n, share)]] = True
        masks.append(mask)
    return masks
