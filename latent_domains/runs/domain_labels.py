"""The domain labels of a run: LMDBs of labels, or of w itself, that its training net reads in step with the pictures.

Also the numbers of the records that it reads. The record reads the labels again.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from latent_domains.data import lmdb_io
from latent_domains.data.equal_classes import equal_classes, write_numbers
from latent_domains.data.lmdb_folder import Note
from latent_domains.data.lmdb_io import read_labels
from latent_domains.domains.assign import assign
from latent_domains.domains.pictures import Pictures, W, numbers
from latent_domains.runs.run_folder import RunFolder

UNKNOWN = -1

LEAST = 1e-30
"""The smallest probability of w in an LMDB, so that its logarithm is finite."""


def write_domain_labels(path: Path, labels: Sequence[int], images: Path | None = None) -> None:
    """Write domain labels as an LMDB whose record i belongs to record i of the LMDB ``images``, which its note names.

    Each Datum is 1×1×1 with the label (a domain's index, or -1 for unknown) as its only ``float_data`` value and again
    as its ``label``, so a Data layer with one top gives N×1×1×1 floats.
    """
    _write(path, np.reshape(labels, (-1, 1)), images)


def write_w(path: Path, w: W, images: Path) -> None:
    """Write w (n×k) of the records of the LMDB ``images``: a Datum has k + 2 values and, as its label, a domain.

    The values are the logarithms of w, whose softmax is w; 1 where w is unknown, else 0; and the most probable domain,
    or UNKNOWN. Where w is unknown, the logarithms are 0, so that they change nothing when added to others.
    """
    labels = numbers(w)
    unknown = labels == UNKNOWN
    logarithms = np.where(unknown[:, np.newaxis], 0, np.log(np.maximum(w, LEAST, dtype=np.float64)))
    _write(path, np.column_stack([logarithms, unknown, labels]), images)


def _write(path: Path, rows: NDArray, images: Path | None) -> None:
    """Write rows whose last number is the label."""
    with lmdb_io.create(path) as (writer, _):
        writer.note = Note(made_of=lmdb_io.material(images).read() if images else None)
        for row in rows.astype(np.float32):
            writer.put("domain", lmdb_io.feature_datum(row, int(row[-1])))


def read_w(path: Path, k: int) -> W:
    """Read w (n×k) from an LMDB of labels or of w."""
    rows, eye = [], np.eye(k + 1, k)
    for _, datum in lmdb_io.read(path):
        if datum.channels > 1 and datum.label != UNKNOWN:
            w = np.exp(datum.float_data[:k])
            rows.append(np.where(w > 2 * LEAST, w, 0))
        else:
            rows.append(eye[datum.label])
    return np.array(rows, np.float32)


def write_records(folder: RunFolder, domains: Sequence[NDArray[np.int64]] | None) -> None:
    """Write the record numbers for each part of the sources, if the training net reads them.

    Classes get equal shares in each domain. ``domains`` are those of each part's images (None: a part is one domain).
    """
    for part, (source, file) in enumerate(folder.record_numbers.items()):
        lmdb = folder.train_lmdbs[source]
        labels = read_labels(lmdb)
        chosen = equal_classes(labels, np.zeros_like(labels) if domains is None else domains[part])
        write_numbers(file, chosen, [folder.experiment.seed, part], lmdb)


def write_labels(folder: RunFolder) -> None:
    """Write the files that the training net reads: LMDBs of domain labels, in the images' order; record numbers."""
    method, images = folder.experiment.method, Pictures(folder.experiment, folder.data_folder)
    w = assign(images, method.way) if folder.domain_labels else None
    of_parts = images.by_part(w) if w is not None else {}
    for part, lmdb in folder.domain_labels.items():
        if method.domains:
            write_w(lmdb, of_parts[part], folder.train_lmdbs[part])
        else:
            write_domain_labels(lmdb, numbers(of_parts[part]).tolist(), folder.train_lmdbs[part])
    if method.domains:
        shutil.copyfile(method.domains_file, folder.domains_file)
    if folder.record_numbers:
        divides = method.divides if folder.domain_labels else None
        found = w if w is not None and divides == method.way else assign(images, divides) if divides else None
        write_records(folder, None if found is None else list(images.by_part(numbers(found)).values()))


def assigned_domains(folder: RunFolder) -> dict[str, NDArray[np.float32]]:
    """Return w (n×k) of the training images by their true source, for a run without a branch that was given w.

    Empty for other runs. An undivided mixture of unknown domains has one entry.
    """
    experiment, method = folder.experiment, folder.experiment.method
    if method.has_branch or not (method.is_latent or method.domains):
        return {}
    rows = given_domains(folder)
    if experiment.task.undivided and (true := Pictures(experiment, folder.data_folder).sources) is not None:
        (mixture,) = rows.values()
        return {source: mixture[true == number] for number, source in enumerate(experiment.sources)}
    return rows


def given_domains(folder: RunFolder) -> dict[str, NDArray[np.float32]]:
    """Return w (n×k) that the training net reads, by part of the sources; zeros where it is unknown."""
    return {part: read_w(lmdb, folder.experiment.k) for part, lmdb in folder.domain_labels.items()}
