"""The latent domains of a run's source pictures, found by their style before any training."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from latent_domains.common.program import ProgramError
from latent_domains.data import lmdb_io
from latent_domains.data.join import read_known_domains
from latent_domains.data.lmdb_folder import is_lmdb
from latent_domains.data.lmdb_note import check_up_to_date
from latent_domains.data.style_domains import Division, divide
from latent_domains.experiment.datasets import STYLE_IS_OF, Dataset
from latent_domains.experiment.experiment import Experiment

Record = tuple[str, str]
"""A record's original LMDB, and its name there."""


def style_domains(experiment: Experiment, parts: list[Path], data: Path) -> Division:
    """The ``experiment.k`` latent domains of all records of the sources' LMDBs ``parts``, in their order.

    Raises ProgramError if the statistics are missing, or are of other pictures.
    """
    records = [record for part in parts for record in _records(part, undivided=experiment.task.undivided)]
    statistics = _statistics([data / lmdb for lmdb in experiment.style_lmdbs], experiment.data)
    for lmdb, name in records:
        if (lmdb, name) not in statistics:
            expected = f"those of all records of {lmdb}; {_remedy(experiment.data, ' --force')}"
            raise ProgramError(f"{data / experiment.data.style / lmdb}: no statistics of {name!r}, expected {expected}")
    rows = np.stack([statistics[record] for record in records]).astype(np.float64)
    classes = np.unique(np.concatenate([*map(lmdb_io.read_labels, parts)]), return_inverse=True)[1].astype(np.int64)
    try:
        return divide(rows, classes, experiment.k, experiment.seed)
    except ProgramError as error:
        raise ProgramError(f"{', '.join(map(str, parts))}: k {experiment.k}: {error}") from error


def _remedy(data: Dataset, option: str = "") -> str:
    """The command that makes them, or why there is none."""
    if not data.style_made_by:
        return f"there are none of {data.images}: {STYLE_IS_OF}"
    return f"make them with: {data.style_made_by}{option}"


def _records(lmdb: Path, *, undivided: bool) -> Iterator[Record]:
    """The records of an LMDB, in its order; those of a mixture by their original LMDBs and names.

    Raises ProgramError if a mixture does not tell these.
    """
    names = list(lmdb_io.record_names(lmdb))
    reason = "statistics of style are found by it"
    domains = read_known_domains(lmdb, reason) if undivided else [lmdb.name] * len(names)
    return zip(domains, names, strict=True)


def _statistics(lmdbs: list[Path], data: Dataset) -> dict[Record, NDArray[np.float32]]:
    found: dict[Record, NDArray[np.float32]] = {}
    for lmdb in lmdbs:
        if not is_lmdb(lmdb):
            raise ProgramError(f"{lmdb}: no such LMDB, expected statistics of style of the sources; {_remedy(data)}")
        again = _remedy(data, " --force")
        check_up_to_date(lmdb, again)
        for key, datum in lmdb_io.read(lmdb):
            record, row = (lmdb.name, lmdb_io.record_name(key)), np.asarray(datum.float_data, np.float32)
            if record in found:
                raise ProgramError(f"{lmdb}: two records are called {record[1]!r}, expected a name for each")
            if len(row) != (size := len(next(iter(found.values()), row))) or not size:
                expected = f"{size} as in the first, statistics of style" if size else "statistics of style"
                raise ProgramError(f"{lmdb}: a record of {len(row)} numbers, expected {expected}; {again}")
            found[record] = row
    return found
