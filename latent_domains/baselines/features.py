"""Feature LMDBs as tables, a row for each record, as a net's Data layer would read it."""

from hashlib import sha256
from pathlib import Path

import numpy as np
from tqdm import tqdm

from latent_domains.baselines.checks import Floats, Integers
from latent_domains.common.program import ProgramError
from latent_domains.common.wording import by
from latent_domains.data import lmdb_io
from latent_domains.data.input_batches import batches
from latent_domains.experiment.datasets import Dataset

MAX_FEATURES = 10_000
"""The most numbers of a sample. With more, records are images, for which these methods would take days."""

BATCH = 500


def read_features(path: Path, data: Dataset, *, limit: int | None = None) -> tuple[Floats, Integers]:
    """Return features (n×d) and labels (n) of an LMDB's records, or of ``limit`` of them.

    A limited number is spread evenly over the LMDB, whose classes may come one after the other. Early statistics at the
    end of a record are left out, since a net's classifier does not see them either.
    Raises ProgramError if the LMDB is missing, damaged or empty, a record has another shape than the dataset's, or the
    dataset's records have more than MAX_FEATURES values.
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
    """Rows (n) of features (n×d), and labels (n) if given, in the order of their hashes.

    So the results of a seed do not depend on the order of records in LMDBs, to the last bit.
    """
    labels = np.zeros(len(X), np.int64) if y is None else y
    return np.argsort([sha256(row.tobytes() + label.tobytes()).digest() for row, label in zip(X, labels, strict=True)])
