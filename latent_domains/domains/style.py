"""Domains found by the pictures' style, before any training."""

from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from latent_domains.common.files import Digest
from latent_domains.common.program import ProgramError
from latent_domains.data import lmdb_io
from latent_domains.data.lmdb_folder import check_up_to_date, is_lmdb
from latent_domains.domains.pictures import Pictures, Record, W, known_of, one_hot
from latent_domains.domains.style_domains import Division, StyleDomains, divide, find_style_domains
from latent_domains.experiment.datasets import STYLE_IS_OF, Dataset


def assign(images: Pictures, k: int, seed: int, share: float | None = None, *, counted: bool = False) -> W:
    """Return one of ``k`` clusters of style for each picture; with a ``share``, only for the surest of each cluster.

    ``counted``: k is their number as tools.discover counts it, and so are the clusters.
    """
    found = division(images, None if counted else k, seed)
    if found.k != k:
        raise ProgramError(f"{', '.join(map(str, images.lmdbs))}: k: got {k}, expected {found.k}, as now counted")
    if share is None:
        return one_hot(found.domains, k)
    domains, order = np.full(len(found.domains), -1), np.argsort(-found.margin, kind="stable")
    for domain in range(k):
        members = order[found.domains[order] == domain]
        domains[members[: known_of(len(members), share)]] = domain
    return one_hot(domains, k)


_FOUND: dict[str, StyleDomains] = {}


def find(rows: NDArray[np.float64], classes: NDArray[np.int64], k: int | None, seed: int) -> StyleDomains:
    """:func:`find_style_domains`, once for the same pictures: counting takes most of the time of a discovery."""
    named = {"rows": rows.tobytes(), "classes": classes.tobytes(), "how": f"{rows.shape} {k} {seed}"}
    key = str(Digest(named.items()))
    if key not in _FOUND:
        _FOUND.clear()
        _FOUND[key] = find_style_domains(rows, classes, k, seed)
    return _FOUND[key]


@lru_cache(maxsize=1)
def division(images: Pictures, k: int | None, seed: int) -> Division:
    """Find the latent domains of all pictures as tools.discover does: ``k``, or as many as are counted (None)."""
    rows, order = statistics_of(images)
    parts = ", ".join(map(str, images.lmdbs))
    try:
        rows, classes, back = rows[order], images.classes[order], np.argsort(order)
        found = find(rows, classes, None, seed) if k is None else divide(rows, classes, k, seed)
        return Division(found.k, found.domains[back], found.probability[back], found.margin[back])
    except ProgramError as error:
        raise ProgramError(f"{parts}: k {k}: {error}") from error


def statistics_of(images: Pictures) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the statistics (n×f) of all pictures, and their numbers (n) in the order of the LMDBs of statistics."""
    data, folder = images.experiment.data, images.data / images.experiment.data.style
    records = images.records("statistics of style are found by it")
    statistics = _statistics([folder / images.lmdb_name(source) for source in images.experiment.sources], data)
    for lmdb, name in records:
        if (lmdb, name) not in statistics:
            expected = f"those of all records of {lmdb}; {_remedy(data, ' --force')}"
            raise ProgramError(f"{folder / lmdb}: no statistics of {name!r}, expected {expected}")
    places = {record: place for place, record in enumerate(statistics)}
    rows = np.stack([statistics[record] for record in records]).astype(np.float64)
    return rows, np.argsort([places[record] for record in records])


def _remedy(data: Dataset, option: str = "") -> str:
    """Return the command that makes them, or why there is none."""
    if not data.style_made_by:
        return f"there are none of {data.images}: {STYLE_IS_OF}"
    return f"make them with: {data.style_made_by}{option}"


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
