"""The pictures whose latent domains are looked for, and statistics of each."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from caffe.proto.caffe_pb2 import Datum
from numpy.typing import NDArray

from latent_domains.backbones.onnx_backbone import OnnxBackbone
from latent_domains.common.in_threads import in_threads
from latent_domains.common.program import ProgramError
from latent_domains.data import lmdb_io
from latent_domains.data.domain_images import Domain, TaskImages
from latent_domains.data.image_datum import Format, make_readable
from latent_domains.data.image_list import UNKNOWN, Entry
from latent_domains.data.image_lmdb import plan_of_files
from latent_domains.data.input_batches import record_values
from latent_domains.data.lmdb_plans import NewRecords, PlannedLmdb
from latent_domains.data.reading import Reading
from latent_domains.domains.kept import Kept
from latent_domains.experiment.datasets import PICTURE_SHAPE

FEWEST = 2
"""Pictures in all."""

TOGETHER = 1000
"""Rows that are kept at a time for other calls."""


def plan_statistics(
    images: TaskImages, backbone: OnnxBackbone, out: Path, *, reading: Reading, jobs: int, skip_unreadable: bool
) -> list[PlannedLmdb]:
    """An LMDB for each folder: the means of the channels of the backbone's early blocks, a record for each picture."""
    return [
        plan_of_files(
            out / folder.name,
            folder.entries,
            images.classes,
            {"program": "tools.discover", **backbone.description},
            partial(_records, out / folder.name, folder, backbone, reading, jobs, skip_unreadable),
            reading,
            jobs,
        )
        for folder in images.sources
    ]


def _records(path: Path, folder: Domain, backbone: OnnxBackbone, reading: Reading, jobs: int, skip: bool) -> NewRecords:
    kept = Kept(backbone.description)
    keys = dict(zip(folder.entries, kept.keys(folder.entries, reading, jobs), strict=True))
    rows = kept.rows(set(keys.values()))

    def row(made: tuple[Entry, Datum]) -> tuple[Entry, NDArray[np.float32]]:
        entry, datum = made
        picture = record_values(path, entry.name.encode(errors="surrogateescape"), datum, PICTURE_SHAPE)
        return entry, backbone.features(picture)[backbone.early_means]

    def read() -> Iterator[tuple[Entry, Datum]]:
        form, remedy = Format(PICTURE_SHAPE[1:], reading=reading), "; --skip-unreadable leaves such pictures out"
        missing = [entry for entry in folder.entries if keys[entry] not in rows]
        for entry, made in make_readable(missing, form, jobs, skip=skip, remedy=remedy):
            yield entry, Datum.FromString(made.datum)

    def records() -> Iterator[tuple[str, Datum]]:
        made = in_threads(row, read(), jobs)
        ahead, new = next(made, None), {}
        for entry in folder.entries:
            found = rows.get(keys[entry])
            if found is None and ahead and ahead[0] is entry:
                new[keys[entry]] = found = ahead[1]
                ahead = next(made, None)
            if found is not None:  # else it cannot be read
                yield entry.name, lmdb_io.feature_datum(found, entry.label)
            if len(new) == TOGETHER or (entry is folder.entries[-1] and new):
                kept.keep(new)
                new = {}

    return NewRecords(len(folder.entries), records())


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
    """Read the LMDBs of :func:`plan_statistics`. Raises ProgramError if too few pictures could be read."""
    rows, classes, folders, files = [], [], [], []
    for number, (folder, lmdb) in enumerate(zip(images.sources, lmdbs, strict=True)):
        for key, datum in lmdb_io.read(lmdb):
            rows.append(np.asarray(datum.float_data, np.float64))
            classes.append(datum.label if images.classes else UNKNOWN)
            folders.append(number)
            files.append(folder.folder / lmdb_io.record_name(key))
    if len(rows) < FEWEST:
        raise ProgramError(f"{lmdbs[0]}: {len(rows)} picture could be read, expected at least {FEWEST}")
    return Statistics(np.stack(rows), np.array(classes, np.int64), np.array(folders, np.int64), files)
