"""Features and labels that others computed: read from .mat and .npz files, checked, normalised."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latent_domains.common.files import expect_file
from latent_domains.common.program import ProgramError
from latent_domains.common.wording import by, count_of, some

FEATURES = ("fts", "feas", "fea", "features", "feature", "x", "data")
"""Usual names of features in published files, in upper or lower case."""

LABELS = ("labels", "label", "y", "gnd")
"""Usual names of labels there."""

NORMALISATIONS = ("none", "l1", "l2", "z", "l1+z", "l2+z")
"""l1, l2: divide each row by its norm. z: then standardise each feature by its mean and deviation over all domains.

Standardising each domain by itself would already be domain adaptation, which the compared methods should do.
"""

FEWEST = 2
"""Fewest rows of a domain: one row has no variance."""


@dataclass(frozen=True)
class LabelledFeatures:
    """Features (n×d) and labels (n)."""

    features: NDArray[np.float64]
    labels: NDArray[np.int64]


def read_features(path: Path, features: str | None = None, labels: str | None = None) -> LabelledFeatures:
    """Return the features and labels in a file; ``features`` and ``labels`` name its arrays (None: a usual name)."""
    expect_file(path, "a file of features and labels")
    kind = path.suffix.lower()
    if kind not in _READERS:
        raise ProgramError(f"{path}: found a name that ends in {kind!r}, expected one of {', '.join(_READERS)}")
    try:
        arrays = _READERS[kind](path)
    except Exception as error:  # what is raised for a damaged file depends on the damage
        raise ProgramError(f"{path}: not a whole {kind} file of numbers: {error}") from error
    y = _find(path, arrays, "labels", labels, LABELS)
    return _checked(path, _find(path, arrays, "features", features, FEATURES), y)


def _mat(path: Path) -> dict[str, Any]:
    from scipy.io import loadmat  # slow to import

    try:
        found = loadmat(path)
    except NotImplementedError as error:
        raise ValueError("found one of MATLAB 7.3 (HDF5), expected an older one: save it with -v7") from error
    arrays = {name: array for name, array in found.items() if not name.startswith("__")}
    return {name: array.toarray() if hasattr(array, "toarray") else array for name, array in arrays.items()}


def _npz(path: Path) -> dict[str, Any]:
    with np.load(path, allow_pickle=False) as archive:
        return dict(archive)


_READERS = {".mat": _mat, ".npz": _npz}


def _find(
    path: Path, arrays: Mapping[str, Any], what: str, chosen: str | None, known: Sequence[str]
) -> NDArray[np.float64]:
    """Return the array of the ``chosen`` name or, without one, of one of the ``known`` names.

    Refuses several arrays of known names.
    """
    found = [name for name in arrays if (name == chosen if chosen else name.lower() in known)]
    if len(found) != 1:
        several = f"{', '.join(found)}, of which --{what} must choose one; in the file: " if found else ""
        expected = chosen or f"one of {', '.join(known)}, in any case (--{what} NAME: another)"
        raise ProgramError(f"{path}: {what}: found {several}{some(sorted(arrays)) or 'nothing'}, expected {expected}")
    array = arrays[found[0]]
    if array.dtype.kind not in "biuf":
        raise ProgramError(f"{path}: {found[0]}: found values of type {array.dtype}, expected numbers")
    return array.astype(np.float64, copy=False)


def _checked(path: Path, features: NDArray[np.float64], labels: NDArray[np.float64]) -> LabelledFeatures:
    if features.ndim != 2 or features.shape[1] < 1:
        raise ProgramError(f"{path}: features: found {by(features.shape)}, expected rows of at least one feature")
    if labels.size != max(labels.shape, default=0):
        raise ProgramError(f"{path}: labels: found {by(labels.shape)}, expected one for each row of features")
    labels = labels.reshape(-1)
    if len(labels) != len(features):
        turned = " (the features seem to be in columns: transpose them)" if len(labels) == features.shape[1] else ""
        found = f"{len(labels)} labels for {count_of(len(features), 'row')} of features"
        raise ProgramError(f"{path}: found {found}, expected as many{turned}")
    if len(labels) < FEWEST:
        raise ProgramError(f"{path}: found {count_of(len(labels), 'row')}, expected at least {FEWEST} of a domain")
    with np.errstate(over="ignore"):
        finite = np.isfinite(features.astype(np.float32))
    if not finite.all():
        row, column = np.argwhere(~finite)[0]
        value = features[row, column]
        raise ProgramError(f"{path}: features: found {value} in row {row + 1}, column {column + 1}, expected numbers")
    whole = (labels == np.floor(labels)) & (labels >= 0) & (labels < 2**31)  # NaN is equal to nothing
    if (odd := np.flatnonzero(~whole)).size:
        value = labels[odd[0]]
        raise ProgramError(f"{path}: labels: found {value:g} in row {odd[0] + 1}, expected whole numbers from 0 on")
    return LabelledFeatures(features, labels.astype(np.int64))


def number_classes(
    domains: Mapping[str, LabelledFeatures], classes: Sequence[str] = ()
) -> tuple[dict[str, LabelledFeatures], int, list[str]]:
    """Return the domains with labels from 0, the number of classes, and the classes that a domain lacks, one per line.

    Refuses domains with different numbers of features, labels of only one class, and ``classes`` (their names) if their
    number differs from that of the labels.
    """
    sizes = {name: rows.features.shape[1] for name, rows in domains.items()}
    first = next(iter(sizes))
    for name, size in sizes.items():
        if size != sizes[first]:
            raise ProgramError(f"{name}: found {size} features, expected {sizes[first]} as {first} has them")
    found = sorted({int(label) for rows in domains.values() for label in np.unique(rows.labels)})
    if len(found) < 2:
        raise ProgramError(f"{', '.join(domains)}: found the label {found[0]} alone, expected at least two classes")
    if classes and len(classes) != len(found):
        raise ProgramError(f"found {len(classes)} names for {len(found)} classes, expected as many")
    names = dict(zip(found, classes or map(str, found), strict=True))
    notes = []
    for domain, rows in domains.items():
        if missing := [name for label, name in names.items() if label not in rows.labels]:
            notes.append(f"{domain}: no row of class {', '.join(missing)}, which other domains have")
    numbered = {name: replace(rows, labels=np.searchsorted(found, rows.labels)) for name, rows in domains.items()}
    return numbered, len(found), notes


def normalise_features(domains: Mapping[str, LabelledFeatures], how: str) -> dict[str, LabelledFeatures]:
    """Return the domains with features normalised in one of NORMALISATIONS.

    Rows of zeros stay as they are. A feature with the same value everywhere is only centred.
    """
    features = {name: rows.features for name, rows in domains.items()}
    if how.startswith("l"):
        norms = {name: np.linalg.norm(x, int(how[1]), axis=1, keepdims=True) for name, x in features.items()}
        features = {name: x / np.where(norms[name] > 0, norms[name], 1) for name, x in features.items()}
    if how.endswith("z"):
        together = np.concatenate(list(features.values()))
        mean, deviation = together.mean(axis=0), together.std(axis=0)
        varies = deviation > 1e-12 * np.abs(together).max(axis=0)  # beyond the rounding of the mean
        features = {name: (x - mean) / np.where(varies, deviation, 1) for name, x in features.items()}
    return {name: replace(rows, features=features[name]) for name, rows in domains.items()}
