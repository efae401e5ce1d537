"""The latent domains of a run's source pictures as their style tells them, before any training."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from latent_domains.common.program import ProgramError
from latent_domains.data import lmdb_io
from latent_domains.data.join import read_domains
from latent_domains.data.lmdb_folder import is_lmdb
from latent_domains.data.lmdb_note import check_up_to_date
from latent_domains.data.style_domains import StyleDomains, find_style_domains
from latent_domains.experiment.experiment import Experiment

Record = tuple[str, str]
"""The LMDB that a record was first in, and its name there."""


def style_domains(experiment: Experiment, parts: list[Path], data: Path) -> StyleDomains:
    """The ``experiment.k`` latent domains of all records of the sources' LMDBs, ``parts``, one after the other.

    Raises ProgramError if the statistics are not there or are those of other pictures.
    """
    lmdbs = experiment.style_lmdbs
    if experiment.undivided and read_domains(parts[0]) is None:  # nobody knows which domain's statistics are meant
        lmdbs = (f"{experiment.data.style}/{parts[0].name}",)
    statistics = _statistics([data / lmdb for lmdb in lmdbs], experiment)
    rows, classes = [], []
    for part in parts:
        labels = lmdb_io.read_labels(part)
        for record, label in zip(_records(part), labels, strict=True):
            if record not in statistics:
                lmdb, name = record
                expected = f"those of {lmdb}: python -m tools.extract_features {experiment.data.images} --style --force"
                raise ProgramError(f"{part}: no statistics of {name!r}, expected {expected}")
            rows.append(statistics[record])
            classes.append(label)
    numbered = np.unique(classes, return_inverse=True)[1].astype(np.int64)
    return find_style_domains(np.stack(rows).astype(np.float64), numbered, experiment.k, experiment.seed)


def _records(lmdb: Path) -> Iterator[Record]:
    """The records of an LMDB, in its order; those of a mixture as what they were before it was joined."""
    names = list(lmdb_io.record_names(lmdb))
    domains = read_domains(lmdb) or [lmdb.name] * len(names)
    return zip(domains, names, strict=True)


def _statistics(lmdbs: list[Path], experiment: Experiment) -> dict[Record, NDArray[np.float32]]:
    found: dict[Record, NDArray[np.float32]] = {}
    made_by = f"make them with: python -m tools.extract_features {experiment.data.images} --style"
    for lmdb in lmdbs:
        if not is_lmdb(lmdb):
            raise ProgramError(f"{lmdb}: no such LMDB, expected statistics of style of the sources; {made_by}")
        check_up_to_date(lmdb, f"{made_by} --force")
        for key, datum in lmdb_io.read(lmdb):
            record, row = (lmdb.name, lmdb_io.record_name(key)), np.asarray(datum.float_data, np.float32)
            if record in found:
                raise ProgramError(f"{lmdb}: two records are called {record[1]!r}, expected a name for each")
            if len(row) != (size := len(next(iter(found.values()), row))) or not size:
                expected = f"{size} as in the first, statistics of style" if size else "statistics of style"
                raise ProgramError(f"{lmdb}: a record of {len(row)} numbers, expected {expected}; {made_by} --force")
            found[record] = row
    return found
