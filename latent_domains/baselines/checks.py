"""What features and labels must be, said in one line where they are not."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from latent_domains.common.program import ProgramError


def check_features(values: ArrayLike, name: str, like: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """Return ``values`` as n×d float64.

    Raises ProgramError naming ``name`` if they are no table of finite numbers with at least one row and column, or
    have another length than those of ``like``.
    """
    try:
        table = np.asarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise ProgramError(f"{name}: features that are no numbers of one length each ({error})") from error
    if table.ndim != 2:
        raise ProgramError(f"{name}: features of shape {table.shape}, expected samples × features")
    if 0 in table.shape:
        raise ProgramError(f"{name}: {table.shape[0]} samples of {table.shape[1]} features, expected at least one")
    if not np.isfinite(table).all():
        row = int((~np.isfinite(table)).any(axis=1).argmax())
        raise ProgramError(f"{name}: the features of sample {row} are not finite")
    if like is not None and table.shape[1] != like.shape[1]:
        raise ProgramError(f"{name}: {table.shape[1]} features, expected {like.shape[1]} as in the source")
    return table


def check_labels(labels: ArrayLike, samples: int, name: str = "source") -> NDArray[np.int64]:
    """Return ``labels`` as n int64. Raises ProgramError if they are not ``samples`` integers of 0 or more."""
    values = np.asarray(labels)
    if values.shape != (samples,):
        raise ProgramError(f"{name}: labels of shape {values.shape}, expected one for each of {samples} samples")
    if values.dtype.kind not in "iu":
        raise ProgramError(f"{name}: labels of type {values.dtype}, expected integers")
    if (values < 0).any():
        raise ProgramError(f"{name}: label {values.min()} among them, expected integers of 0 or more")
    return values.astype(np.int64)


def check_training(X: ArrayLike, y: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return labelled source features (n×d) and labels (n). Raises ProgramError if there are not two classes."""
    features = check_features(X, "source")
    labels = check_labels(y, len(features))
    if labels.min() == labels.max():
        raise ProgramError(f"source: all {len(labels)} samples are of class {labels[0]}, expected at least two classes")
    return features, labels


def check_domains(n_domains: int, n_init: int, max_iter: int, y: NDArray[np.int64]) -> None:
    """Raise ProgramError if a class cannot be in ``n_domains`` domains, or one of the numbers is below 1."""
    for name, value in (("k", n_domains), ("n_init", n_init), ("max_iter", max_iter)):
        if value < 1:
            raise ProgramError(f"{name}: got {value}, expected at least 1")
    classes, counts = np.unique(y, return_counts=True)
    rarest = counts.argmin()
    if counts[rarest] < n_domains:
        raise ProgramError(
            f"k: got {n_domains} domains, but class {classes[rarest]} has {counts[rarest]} samples: "
            "expected at least one of each class in each domain"
        )
