"""The pictures whose latent domains are looked for, and statistics of each: made once, whatever program made them."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import lmdb
import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from latent_domains.backbones.onnx_backbone import OnnxBackbone
from latent_domains.common.files import Digest, expect_file, write_aside
from latent_domains.common.in_threads import in_threads
from latent_domains.common.program import ROOT, ProgramError
from latent_domains.data import lmdb_io
from latent_domains.data.domain_images import Domain, TaskImages
from latent_domains.data.image_datum import Format, Made, file_contents, make_readable
from latent_domains.data.image_list import UNKNOWN, Entry
from latent_domains.data.image_lmdb import plan_of_files
from latent_domains.data.lmdb_plans import NewRecords, PlannedLmdb
from latent_domains.data.pixels import decided_by
from latent_domains.data.preprocessing import Reading
from latent_domains.experiment.datasets import PICTURE_SHAPE

FEWEST = 2
"""The least number of pictures, of all folders together."""

TOGETHER = 1000
"""Rows that are written to the cache at a time."""


FOLDER = ROOT / "data" / "statistics"
"""The cache. It can be deleted: then statistics are computed again."""

MOST = 2**34
"""The most bytes of the cache of one backbone; rows beyond are not cached."""


def plan_statistics(
    images: TaskImages, backbone: OnnxBackbone, out: Path, *, reading: Reading, jobs: int, skip_unreadable: bool
) -> list[PlannedLmdb]:
    """Return an LMDB for each folder: the means of the channels of the backbone's
    early blocks, a record for each picture.
    """
    return [
        plan_of_files(
            out / folder.name,
            folder.entries,
            images.classes,
            {"program": "tools.discover", **backbone.description},
            partial(_records, folder, backbone, reading, jobs, skip_unreadable),
            reading,
            jobs,
        )
        for folder in images.sources
    ]


def _records(folder: Domain, backbone: OnnxBackbone, reading: Reading, jobs: int, skip: bool) -> NewRecords:
    made = statistics_of(folder.entries, backbone, reading=reading, jobs=jobs, skip_unreadable=skip)
    return NewRecords(
        len(folder.entries), ((entry.name, lmdb_io.feature_datum(row, entry.label)) for entry, row in made)
    )


def statistics_of(
    entries: Sequence[Entry], backbone: OnnxBackbone, *, reading: Reading, jobs: int, skip_unreadable: bool
) -> Iterator[tuple[Entry, NDArray[np.float32]]]:
    """Yield each picture that can be read with its statistics: cached ones, or new ones, which are then cached."""
    kept = StatisticsCache(backbone.description)
    keys = kept.keys(entries, reading, jobs)
    rows = kept.rows(set(keys))
    form, remedy = Format(PICTURE_SHAPE[1:], reading=reading), "; --skip-unreadable leaves such pictures out"

    def row(of: tuple[Entry, Made]) -> tuple[Entry, NDArray[np.float32]]:
        return of[0], backbone.features(of[1].planes)[backbone.early_means]

    missing = [entry for entry, key in zip(entries, keys, strict=True) if key not in rows]
    made = in_threads(row, make_readable(missing, form, jobs, skip=skip_unreadable, remedy=remedy), jobs)
    following, new = next(made, None), {}
    for entry, key in zip(entries, keys, strict=True):
        if key in rows:
            yield entry, rows[key]
        elif following and following[0] is entry:  # else it cannot be read
            new[key] = following[1]
            yield following
            following = next(made, None)
        if len(new) == TOGETHER or following is None:
            kept.keep(new)
            new = {}


@dataclass(frozen=True)
class Statistics:
    """Statistics of the pictures that could be read, in the order of the folders."""

    rows: NDArray[np.float64]
    """A row for each of n pictures."""
    classes: NDArray[np.int64]
    """The number of its class (n); UNKNOWN where there are none."""
    folders: NDArray[np.int64]
    """The number of its folder (n)."""
    files: list[Path]
    """Where it lies (n)."""


def read_statistics(images: TaskImages, lmdbs: Sequence[Path]) -> Statistics:
    """Read the LMDBs of :func:`plan_statistics`. Refuses fewer than FEWEST pictures."""
    rows, classes, folders, files = [], [], [], []
    for number, (folder, path) in enumerate(zip(images.sources, lmdbs, strict=True)):
        for key, datum in lmdb_io.read(path):
            rows.append(np.asarray(datum.float_data, np.float64))
            classes.append(datum.label if images.classes else UNKNOWN)
            folders.append(number)
            files.append(folder.folder / lmdb_io.record_name(key))
    if len(rows) < FEWEST:
        raise ProgramError(f"{lmdbs[0]}: {len(rows)} picture could be read, expected at least {FEWEST}")
    return Statistics(np.stack(rows), np.array(classes, np.int64), np.array(folders, np.int64), files)


Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LinearDomains:
    """Probabilities of k domains: the softmax of ``weights`` (k×f) times the statistics, and ``bias`` (k).

    ``made`` says how the backbone made the statistics.
    """

    weights: Floats
    bias: Floats
    made: str

    def probabilities(self, rows: Floats) -> Floats:
        """w (n×k) of statistics (n×f)."""
        return softmax(rows @ self.weights.T + self.bias, axis=1)

    def write(self, file: Path) -> None:
        """Write the file."""
        with write_aside(file) as aside, aside.open("wb") as stream:
            np.savez(stream, **vars(self))

    @classmethod
    def read(cls, file: Path, backbone: OnnxBackbone) -> "LinearDomains":
        """Read the file. Refuses one on statistics of another backbone."""
        expect_file(file, "the domains of a model, by python -m tools.adapt")
        try:
            with np.load(file) as arrays:
                found = cls(**{name: arrays[name] for name in cls.__dataclass_fields__})
        except Exception as error:  # what is raised for a damaged file depends on the damage
            raise ProgramError(f"{file}: not a whole file of a model's domains: {error}") from error
        if str(found.made) != (expected := made_by(backbone)):
            raise ProgramError(f"{file}: statistics of {found.made}, expected those of {expected}")
        return found


def made_by(backbone: OnnxBackbone) -> str:
    """Return how a backbone makes statistics, as the file says it."""
    return json.dumps(backbone.description, sort_keys=True)


class StatisticsCache:
    """Cached rows of statistics that were ``made`` in one way. If no file can be written, nothing is cached."""

    def __init__(self, made: Mapping[str, str | int]) -> None:
        self._path = FOLDER / str(Digest([("", json.dumps(made, sort_keys=True))]))[:16]

    def keys(self, entries: Sequence[Entry], reading: Reading, jobs: int) -> list[bytes]:
        """Return the key of each picture: a hash of its contents, and of the
        options of ``reading`` on which it depends.
        """

        def key(entry: Entry) -> bytes:
            try:
                data = file_contents(entry.file)
            except OSError:
                return b""
            return str(Digest([("", data), ("", json.dumps(decided_by(data, reading)))])).encode()

        return list(in_threads(key, entries, jobs))

    def rows(self, keys: Iterable[bytes]) -> dict[bytes, NDArray[np.float32]]:
        """Return the cached rows of those keys."""
        with self._transaction(write=False) as found:
            values = ((key, found.get(key)) for key in keys if key) if found else ()
            return {key: np.frombuffer(value, np.float32) for key, value in values if value}

    def keep(self, rows: Mapping[bytes, NDArray[np.float32]]) -> None:
        """Cache rows by their keys."""
        if not rows:
            return
        with self._transaction(write=True) as made:
            for key, row in rows.items() if made else ():
                made.put(key, row.astype(np.float32).tobytes())

    @contextmanager
    def _transaction(self, *, write: bool) -> Iterator[lmdb.Transaction | None]:
        try:
            self._path.mkdir(parents=True, exist_ok=True)
            env = lmdb.open(str(self._path), map_size=MOST, metasync=False)
        except (OSError, lmdb.Error):
            yield None
            return
        try:
            with env.begin(write=write) as transaction:
                yield transaction
        except lmdb.Error:  # no room, or no right to write
            if not write:
                raise
        finally:
            env.close()
