"""Domains that are drawn at random: a control."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from latent_domains.domains.pictures import Pictures, W, one_hot


def assign(images: Pictures, k: int, seed: int) -> W:
    """One of ``k`` domains at random, equal numbers of each."""
    return one_hot(np.concatenate(random_domains(images.counts, k, seed)), k)


def random_domains(counts: Sequence[int], k: int, seed: int) -> list[NDArray[np.int64]]:
    """One of k domains at random for each of the n records of each LMDB, equal numbers (±1) of each in every LMDB."""
    return [np.random.default_rng([seed, i]).permutation(n) % k for i, n in enumerate(counts)]
