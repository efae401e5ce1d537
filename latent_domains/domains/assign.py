"""Give the source pictures of an experiment their domains, in the way of its method.

A way is a function (images, k, seed) → w (n×k): known domains, random ones, clusters of pixels' statistics, a branch's;
clusters of style and a file's have modules of their own. w has the probabilities of the k domains for each of n
pictures; a row of zeros says that nothing is known.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import caffe
import numpy as np
from numpy.typing import NDArray

from latent_domains.common.program import ProgramError
from latent_domains.data.input_batches import batches
from latent_domains.data.preprocessing import Preprocessing
from latent_domains.domains import from_file, style
from latent_domains.domains.pictures import Pictures, W, choose_known, one_hot, random_domains
from latent_domains.models.classifier import blob_of_images

_BATCH = 1000
_STARTS = 10
"""K-means keeps the best of so many beginnings."""


def _known(images: Pictures, k: int, seed: int, share: float = 1.0) -> W:
    """Return the source of a ``share`` of the pictures of each source, drawn by ``seed``; the others are unknown."""
    sources = images.known_sources
    if share < 1:
        sources = np.where(np.concatenate(choose_known(images.counts, share, seed)), sources, -1)
    return one_hot(sources, k)


def _at_random(images: Pictures, k: int, seed: int) -> W:
    """Draw one of ``k`` domains for each picture, equal numbers of each."""
    return one_hot(np.concatenate(random_domains(images.counts, k, seed)), k)


def _pixels(images: Pictures, k: int, seed: int) -> W:
    """Find ``k`` clusters of each channel's mean and standard deviation, over all pictures together."""
    data = images.experiment.data
    return one_hot(np.concatenate(kmeans_domains(images.lmdbs, data.stored_shape, k, seed, data.early)), k)


def kmeans_domains(
    lmdbs: Sequence[Path], shape: tuple[int, int, int], k: int, seed: int, early: int = 0
) -> list[NDArray[np.int64]]:
    """Return the cluster of each record of each LMDB: k-means over all of them together, by :func:`channel_statistics`.

    If the last ``early`` numbers of a record are such statistics of a backbone's blocks, by these alone, each divided
    by its standard deviation, as a branch on them sees them. Refuses fewer than ``k`` different records.
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
    """Return mean, then standard deviation, of each channel of each record (n×2C); the records' shape is C×H×W."""
    form = Preprocessing(shape, crop=None, mean=(), scale=1.0)
    rows = [
        np.concatenate([images.mean(axis=(2, 3), dtype=np.float64), images.std(axis=(2, 3), dtype=np.float64)], axis=1)
        for images, _ in batches(lmdb, form, _BATCH)
    ]
    return np.concatenate(rows)


def _branch(images: Pictures, k: int, seed: int, net: caffe.Net) -> W:
    """Return the probabilities of the ``k`` domains by a run's domain ``net``. Nothing is drawn by ``seed``."""
    form = (images.experiment.data.preprocessing, images.experiment.data.test_batch_limit)
    parts = zip(images.lmdbs, images.counts, strict=True)
    return np.concatenate([blob_of_images(net, "domain_prob", lmdb, *form, number)[0] for lmdb, number in parts])


WAYS: dict[str, Callable[..., W]] = {
    "known": _known,
    "at_random": _at_random,
    "pixels": _pixels,
    "style": style.assign,
    "from_file": from_file.assign,
    "branch": _branch,
}
"""By the names that methods have for them (:mod:`latent_domains.experiment.methods`)."""


def assign(images: Pictures, way: tuple[str, dict[str, object]]) -> W:
    """Return w (n×k) of the pictures of an experiment by one of WAYS, with its options."""
    name, options = way
    return WAYS[name](images, images.experiment.k, images.experiment.seed, **options)
