"""LMDBs of domain labels, or of w itself, which a training net reads in step with the pictures."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from latent_domains.data import lmdb_io
from latent_domains.data.lmdb_note import Note
from latent_domains.domains.pictures import W, numbers

UNKNOWN = -1

LEAST = 1e-30
"""The least probability of w in an LMDB, whose logarithm is finite."""


def write_domain_labels(path: Path, labels: Sequence[int], images: Path | None = None) -> None:
    """Write domain labels as an LMDB whose record i belongs to record i of the LMDB ``images``, for its note.

    Each Datum is 1×1×1 with the label (a domain's index, or -1 for unknown) as its only ``float_data`` value and again
    as its ``label``, so a Data layer with one top gives N×1×1×1 floats.

    Raises ProgramError if ``path`` exists.
    """
    _write(path, np.reshape(labels, (-1, 1)), images)


def write_w(path: Path, w: W, images: Path) -> None:
    """Write w (n×k) of the records of the LMDB ``images``: a Datum has k + 2 values and, as its label, a domain.

    They are the logarithms of w, whose softmax is w; 1 where it is unknown; and the most probable domain, or UNKNOWN.
    The logarithms are then 0, so that they change nothing if they are added to others.
    Raises ProgramError if ``path`` exists.
    """
    labels = numbers(w)
    unknown = labels == UNKNOWN
    logarithms = np.where(unknown[:, np.newaxis], 0, np.log(np.maximum(w, LEAST, dtype=np.float64)))
    _write(path, np.column_stack([logarithms, unknown, labels]), images)


def _write(path: Path, rows: NDArray, images: Path | None) -> None:
    """Write rows, the last number of which is the label."""
    with lmdb_io.create(path) as (writer, _):
        writer.note = Note(made_of=lmdb_io.material(images).read() if images else None)
        for row in rows.astype(np.float32):
            writer.put("domain", lmdb_io.feature_datum(row, int(row[-1])))


def read_w(path: Path, k: int) -> W:
    """Read w (n×k) from an LMDB of either kind."""
    rows, eye = [], np.eye(k + 1, k)
    for _, datum in lmdb_io.read(path):
        if datum.channels > 1 and datum.label != UNKNOWN:
            w = np.exp(datum.float_data[:k])
            rows.append(np.where(w > 2 * LEAST, w, 0))
        else:
            rows.append(eye[datum.label])
    return np.array(rows, np.float32)
