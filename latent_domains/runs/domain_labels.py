"""Writes a run's domain labels, and the numbers of the records that it reads, into its folder.

The run's record reads the labels again.
"""

import shutil

import numpy as np
from numpy.typing import NDArray

from latent_domains.domains.assign import assign
from latent_domains.domains.labels import read_w, write_domain_labels, write_w
from latent_domains.domains.pictures import Pictures, numbers
from latent_domains.runs.equal_classes import write_records
from latent_domains.runs.run_folder import RunFolder


def write_labels(folder: RunFolder) -> None:
    """Write what the training net reads of these: LMDBs of domain labels, in the images' order; numbers of records."""
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
    if folder.records:
        divides = method.divides if folder.domain_labels else None
        found = w if w is not None and divides == method.way else assign(images, divides) if divides else None
        write_records(folder, None if found is None else list(images.by_part(numbers(found)).values()))


def assigned_domains(folder: RunFolder) -> dict[str, NDArray[np.float32]]:
    """w (n×k) of the training images of a run without a branch that was given them, by their true source.

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
    """w (n×k) that the training net reads, by part of the sources; zeros where nothing is known."""
    return {part: read_w(lmdb, folder.experiment.k) for part, lmdb in folder.domain_labels.items()}
