"""Features of samples: feature LMDBs as matrices, a row for each record; checks, and a Gaussian kernel."""

from hashlib import sha256
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics.pairwise import euclidean_distances, rbf_kernel
from sklearn.utils import check_array
from tqdm import tqdm

from latent_domains.common.program import ProgramError
from latent_domains.common.wording import by, one_line
from latent_domains.data import lmdb_io
from latent_domains.data.input_batches import batches
from latent_domains.experiment.datasets import Dataset

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def check_features(values: ArrayLike, name: str, like: Floats | None = None) -> Floats:
    """Return ``values`` as n×d float64; ``name`` is for messages.

    Refuses an empty matrix, numbers that are not finite, and another d than that of ``like``.
    """
    try:
        table = check_array(values, dtype=np.float64)
    except ValueError as error:
        raise ProgramError(one_line(f"{name}: {error}")) from error
    if like is not None and table.shape[1] != like.shape[1]:
        raise ProgramError(f"{name}: {table.shape[1]} features, expected {like.shape[1]} as in the source")
    return table


def check_training(X: ArrayLike, y: ArrayLike) -> tuple[Floats, Integers]:
    """Return labelled source features (n×d) and labels (n). Refuses labels of only one class."""
    features, labels = check_features(X, "source"), np.asarray(y)
    if labels.shape != (len(features),) or labels.dtype.kind not in "iu" or (labels < 0).any():
        raise ProgramError(
            f"source: found the labels {labels}, expected a whole number for each of {len(features)} samples"
        )
    if labels.min() == labels.max():
        raise ProgramError(f"source: all {len(labels)} samples are of class {labels[0]}, expected at least two classes")
    return features, labels.astype(np.int64)


def check_domains(n_domains: int, y: Integers) -> None:
    """Raise ProgramError if ``n_domains`` is below 1, or if a class has fewer samples than that."""
    if n_domains < 1:
        raise ProgramError(f"k: got {n_domains}, expected at least 1")
    classes, counts = np.unique(y, return_counts=True)
    rarest = counts.argmin()
    if counts[rarest] < n_domains:
        raise ProgramError(
            f"k: got {n_domains} domains, but class {classes[rarest]} has {counts[rarest]} samples: "
            "expected at least one of each class in each domain"
        )


MEDIAN_OF = 2000
"""The median distance is computed from at most this many samples; more hardly change it."""


def median_gamma(X: Floats, rng: np.random.Generator) -> float:
    """Return γ of exp(-γ ‖x - x'‖²) for a bandwidth σ² = the median squared distance: 1 / 2σ².

    Refuses features (n×d) that are the same for most samples.
    """
    some = X if len(X) <= MEDIAN_OF else X[np.sort(rng.choice(len(X), MEDIAN_OF, replace=False))]
    squared = euclidean_distances(some, squared=True)[np.triu_indices(len(some), 1)]
    median = float(np.median(squared)) if len(squared) else 0.0
    # A smaller distance comes from the rounding of equal samples.
    if median <= 1e-12 * float(np.square(some).sum(axis=1).max()):
        raise ProgramError("source: most samples have the same features, expected features that differ")
    return 1 / (2 * median)


def mmd(X: Floats, other: Floats, gamma: float) -> float:
    """Return the squared maximum mean discrepancy of two samples (n×d, m×d), ‖mean φ(x) - mean φ(x')‖²."""
    inside = rbf_kernel(X, gamma=gamma).mean() + rbf_kernel(other, gamma=gamma).mean()
    return float(inside - 2 * rbf_kernel(X, other, gamma=gamma).mean())


MAX_FEATURES = 10_000
"""The most numbers of a sample. Longer records are images, for which these methods would need days."""

BATCH = 500


def read_features(path: Path, data: Dataset, *, limit: int | None = None) -> tuple[Floats, Integers]:
    """Return features (n×d) and labels (n) of an LMDB's records, or of ``limit`` of them.

    A limited number is spread evenly over the LMDB, whose classes may come one after the other. Early statistics at the
    end of a record are not returned, since a net's classifier does not see them either. Refuses records with more than
    MAX_FEATURES values.
    """
    size = int(np.prod(data.shape)) - data.early
    if size > MAX_FEATURES:
        raise ProgramError(
            f"dataset {data.name}: records of {by(data.shape)} values, expected at most {MAX_FEATURES}: "
            "take features (python -m tools.extract_features)"
        )
    records = lmdb_io.count_filled(path, data.made_by)
    samples = min(records, limit or records)
    chosen = np.arange(samples) * records // samples
    features, labels = np.empty((samples, size)), np.empty(samples, np.int64)
    first = 0
    with tqdm(total=records, desc=path.name, unit="rec", delay=2, leave=False) as bar:
        for inputs, found in batches(path, data.preprocessing, BATCH):
            begin, end = np.searchsorted(chosen, [first, first + len(inputs)])
            rows = chosen[begin:end] - first
            features[begin:end], labels[begin:end] = inputs[rows, :size].reshape(len(rows), size), found[rows]
            bar.update(len(inputs))
            first += len(inputs)
    if not np.isfinite(features).all():
        row = int(chosen[(~np.isfinite(features)).any(axis=1).argmax()])
        raise ProgramError(f"{path}: record {row} has features that are not finite")
    return features, labels


def by_content(X: Floats, y: Integers | None = None) -> Integers:
    """Return the order of rows (n) of features (n×d), and labels (n) if given, by their hashes.

    So the results of a seed do not depend on the order of records in LMDBs, to the last bit.
    """
    labels = np.zeros(len(X), np.int64) if y is None else y
    return np.argsort([sha256(row.tobytes() + label.tobytes()).digest() for row, label in zip(X, labels, strict=True)])
