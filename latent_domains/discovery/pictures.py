"""The pictures whose latent domains are looked for, and statistics of each."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from caffe.proto.caffe_pb2 import Datum
from numpy.typing import NDArray

from latent_domains.adapt.trees import Domain, check_levels, domain_names, each_by_itself
from latent_domains.backbones.onnx_backbone import OnnxBackbone
from latent_domains.common.files import check_apart
from latent_domains.common.in_threads import in_threads
from latent_domains.common.program import ProgramError
from latent_domains.data import lmdb_io
from latent_domains.data.image_datum import Format, make_readable
from latent_domains.data.image_list import UNKNOWN, Entry, folder_entries, read_class_tree
from latent_domains.data.image_lmdb import plan_of_files
from latent_domains.data.input_batches import record_values
from latent_domains.data.lmdb_plans import NewRecords, PlannedLmdb
from latent_domains.experiment.datasets import PICTURE_SHAPE

FEWEST = 2
"""Pictures in all."""


@dataclass(frozen=True)
class Pile:
    """The pictures of each folder that was given."""

    folders: tuple[Domain, ...]
    classes: tuple[str, ...]
    """Names of the classes; none if they are not known."""

    @property
    def names(self) -> list[str]:
        """The folders' names; no two are the same."""
        return [folder.name for folder in self.folders]


def read_pile(sources: Sequence[Path], *, unlabelled: bool = False, folders_are_classes: bool = False) -> Pile:
    """List the pictures of the folders: SOURCE/CLASS/…/PICTURE, or in any folders if they are ``unlabelled``.

    No picture is opened. Raises ProgramError if a folder is not there or lies in another, if it holds no pictures, or
    if its folders look like domains (``folders_are_classes``: they are none).
    """
    for folder in sources:
        if not folder.is_dir():
            raise ProgramError(f"{folder}: {'a file' if folder.exists() else 'no such folder'}, expected a folder")
    check_apart(sources, "folders of which none lies in another")
    names = domain_names(sources)
    if unlabelled:
        listed = [folder_entries(folder) for folder in sources]
        folders = [
            Domain(name, folder, tuple(entries), found)
            for name, folder, (entries, found) in zip(names, sources, listed, strict=True)
        ]
        return _checked(Pile(tuple(folders), ()))
    for folder in sources:
        if not any(one.is_dir() for one in folder.iterdir()):
            raise ProgramError(f"{folder}: no folders in it, expected one for each class; for others: --unlabelled")
    trees = list(map(read_class_tree, sources))
    if not folders_are_classes:
        check_levels(trees, partial(each_by_itself, ""))
    classes = tuple(sorted({name for tree in trees for name in tree.class_names}))
    folders = [
        Domain(name, tree.root, tuple(tree.entries(classes)), tree.found)
        for name, tree in zip(names, trees, strict=True)
    ]
    return _checked(Pile(tuple(folders), classes))


def _checked(pile: Pile) -> Pile:
    if (number := sum(len(folder.entries) for folder in pile.folders)) < FEWEST:
        raise ProgramError(f"{pile.folders[0].folder}: {number} picture, expected at least {FEWEST}")
    return pile


def plan_statistics(
    pile: Pile, backbone: OnnxBackbone, out: Path, *, jobs: int, skip_unreadable: bool
) -> list[PlannedLmdb]:
    """An LMDB for each folder: the means of the channels of the backbone's early blocks, a record for each picture."""
    return [
        plan_of_files(
            out / folder.name,
            folder.entries,
            pile.classes,
            {"program": "tools.discover", **backbone.description},
            partial(_records, out / folder.name, folder, backbone, jobs, skip_unreadable),
            jobs,
        )
        for folder in pile.folders
    ]


def _records(path: Path, folder: Domain, backbone: OnnxBackbone, jobs: int, skip: bool) -> NewRecords:
    def row(made: tuple[Entry, Datum]) -> tuple[str, Datum]:
        entry, datum = made
        picture = record_values(path, entry.name.encode(errors="surrogateescape"), datum, PICTURE_SHAPE)
        return entry.name, lmdb_io.feature_datum(backbone.features(picture)[backbone.early_means], entry.label)

    def read() -> Iterator[tuple[Entry, Datum]]:
        remedy = "; --skip-unreadable leaves such pictures out"
        for entry, made in make_readable(folder.entries, Format(PICTURE_SHAPE[1:]), jobs, skip=skip, remedy=remedy):
            yield entry, Datum.FromString(made.datum)

    return NewRecords(len(folder.entries), in_threads(row, read(), jobs))


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


def read_statistics(pile: Pile, lmdbs: Sequence[Path]) -> Statistics:
    """Read the LMDBs of :func:`plan_statistics`. Raises ProgramError if too few pictures could be read."""
    rows, classes, folders, files = [], [], [], []
    for number, (folder, lmdb) in enumerate(zip(pile.folders, lmdbs, strict=True)):
        for key, datum in lmdb_io.read(lmdb):
            rows.append(np.asarray(datum.float_data, np.float64))
            classes.append(datum.label if pile.classes else UNKNOWN)
            folders.append(number)
            files.append(folder.folder / lmdb_io.record_name(key))
    if len(rows) < FEWEST:
        raise ProgramError(f"{lmdbs[0]}: {len(rows)} picture could be read, expected at least {FEWEST}")
    return Statistics(np.stack(rows), np.array(classes, np.int64), np.array(folders, np.int64), files)
