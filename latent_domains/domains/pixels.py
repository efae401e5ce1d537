"""Clusters of each channel's mean and standard deviation: a control."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from latent_domains.common.program import ProgramError
from latent_domains.data.input_batches import batches
from latent_domains.data.preprocessing import Preprocessing
from latent_domains.domains.pictures import Pictures, W, one_hot

_BATCH = 1000
_STARTS = 10
"""K-means keeps the best of so many beginnings."""


def assign(images: Pictures, k: int, seed: int) -> W:
    """One of ``k`` clusters of each channel's mean and standard deviation, over all pictures together."""
    data = images.experiment.data
    return one_hot(np.concatenate(kmeans_domains(images.lmdbs, data.stored_shape, k, seed, data.early)), k)


def kmeans_domains(
    lmdbs: Sequence[Path], shape: tuple[int, int, int], k: int, seed: int, early: int = 0
) -> list[NDArray[np.int64]]:
    """The cluster of each record of each LMDB: k-means over all of them together, by :func:`channel_statistics`.

    Where the last ``early`` numbers of a record are such statistics of a backbone's blocks, by these alone, each
    divided by its standard deviation, as a branch on them sees them.
    Raises ProgramError if there are fewer than ``k`` different records.
    """
    from sklearn.cluster import KMeans  # a second to import

    statistics = [channel_statistics(lmdb, shape) for lmdb in lmdbs]
    rows = np.concatenate(statistics)
    if early:
        rows = rows[:, shape[0] - early : shape[0]]  # the means of single numbers are the numbers
        rows = (rows - rows.mean(axis=0)) / np.maximum(rows.std(axis=0), 1e-6)
    if (different := len(np.unique(rows, axis=0))) < k:
        raise ProgramError(f"k-means: {different} different images in {', '.join(map(str, lmdbs))}, expected ≥ {k}")
    clusters = KMeans(k, n_init=_STARTS, random_state=seed).fit_predict(rows).astype(np.int64)
    return np.split(clusters, np.cumsum([len(found) for found in statistics])[:-1])


def channel_statistics(lmdb: Path, shape: tuple[int, int, int]) -> NDArray[np.float64]:
    """Mean, then standard deviation, of each channel of each record (n×2C); the records' shape is C×H×W."""
    form = Preprocessing(shape, crop=None, mean=(), scale=1.0)
    rows = [
        np.concatenate([images.mean(axis=(2, 3), dtype=np.float64), images.std(axis=(2, 3), dtype=np.float64)], axis=1)
        for images, _ in batches(lmdb, form, _BATCH)
    ]
    return np.concatenate(rows)
