"""Checks of features and labels; a mistake is told in one line."""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array

from latent_domains.common.program import ProgramError
from latent_domains.common.wording import one_line

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def check_features(values: ArrayLike, name: str, like: Floats | None = None) -> Floats:
    """Return ``values`` as n×d float64.

    Raises ProgramError naming ``name`` if they are no table of finite numbers with at least one row and column, or if
    their number d is not that of ``like``.
    """
    try:
        table = check_array(values, dtype=np.float64)
    except ValueError as error:
        raise ProgramError(one_line(f"{name}: {error}")) from error
    if like is not None and table.shape[1] != like.shape[1]:
        raise ProgramError(f"{name}: {table.shape[1]} features, expected {like.shape[1]} as in the source")
    return table


def check_training(X: ArrayLike, y: ArrayLike) -> tuple[Floats, Integers]:
    """Return labelled source features (n×d) and labels (n). Raises ProgramError if there is only one class."""
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
