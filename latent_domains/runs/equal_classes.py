"""The numbers of the records that a run reads where it draws all classes in equal shares."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from latent_domains.data.equal_classes import equal_classes, write_numbers
from latent_domains.data.lmdb_io import read_labels
from latent_domains.runs.run_folder import RunFolder


def write_records(folder: RunFolder, domains: Sequence[NDArray[np.int64]] | None) -> None:
    """Write them for each part of the sources, if the training net reads them.

    ``domains`` are those of the images of each part, in which classes get equal shares (None: each part is one).
    """
    if not folder.records:
        return
    classes = [read_labels(folder.train_lmdbs[part]) for part in folder.records]
    if domains is None:
        domains = [np.full(len(of_part), number) for number, of_part in enumerate(classes)]
    for file, numbers in zip(folder.records.values(), equal_classes(classes, domains), strict=True):
        write_numbers(file, numbers, folder.experiment.seed)
