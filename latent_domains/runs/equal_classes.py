"""Writes the numbers of the records that a run reads if it draws all classes in equal shares."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from latent_domains.data.equal_classes import equal_classes, write_numbers
from latent_domains.data.lmdb_io import read_labels
from latent_domains.runs.run_folder import RunFolder


def write_records(folder: RunFolder, domains: Sequence[NDArray[np.int64]] | None) -> None:
    """Write the numbers for each part of the sources, if the training net reads them.

    Classes get equal shares in each domain. ``domains`` are those of each part's images (None: a part is one domain).
    """
    for part, (source, file) in enumerate(folder.records.items()):
        lmdb = folder.train_lmdbs[source]
        labels = read_labels(lmdb)
        numbers = equal_classes(labels, np.zeros_like(labels) if domains is None else domains[part])
        write_numbers(file, numbers, [folder.experiment.seed, part], lmdb)
