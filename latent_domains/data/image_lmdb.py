"""LMDBs of image files: built now, or planned with a note by which a later run sees whether they are unchanged."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from caffe.proto.caffe_pb2 import Datum
from tqdm import tqdm

from latent_domains.common.files import Digest, stamp
from latent_domains.common.in_threads import in_threads
from latent_domains.common.program import ProgramError
from latent_domains.data.image_datum import Format, file_contents, make_readable
from latent_domains.data.image_list import Entry, size
from latent_domains.data.lmdb_folder import MadeOf, Material
from latent_domains.data.lmdb_plans import FINGERPRINT, NewRecords, PlannedLmdb
from latent_domains.data.pixels import decided_by
from latent_domains.data.preprocessing import Reading

VERSION = 1
"""Increased whenever the same images and seed give other records or another order."""


def build(
    entries: Sequence[Entry],
    out: Path,
    form: Format,
    *,
    jobs: int = 1,
    classes: Sequence[str] = (),
    skip_unreadable: bool = False,
    force: bool = False,
) -> int:
    """Write the images to a new LMDB at ``out``, in the order of ``entries``. Return how many were stored.

    ``jobs`` threads read the images; ``classes`` are the names of the labels. Unreadable images are skipped if
    ``skip_unreadable``. Refuses to store nothing.
    """
    remedy = " (--skip-unreadable leaves such images out)"
    records = partial(_records, out, entries, form, jobs, skip_unreadable, remedy)
    return PlannedLmdb(out, {}, records, tuple(classes)).build(force=force)


def plan_of_images(
    path: Path,
    entries: Sequence[Entry],
    classes: tuple[str, ...],
    form: Format,
    *,
    program: str,
    order: tuple[int, ...],
    jobs: int,
    remedy: str,
    skip_unreadable: bool = False,
) -> PlannedLmdb:
    """Plan an LMDB of image files, resized by ``form``, in an order drawn by the seed ``order``.

    ``program`` makes it from the seed ``order[0]``. No image is read before it is built. An unreadable one is then
    named on stderr and skipped if ``skip_unreadable``; else it is an error that ends in ``remedy``.
    """
    height, width = form.resize or (0, 0)
    origin = {
        "program": program,
        "seed": order[0],
        "version": VERSION,
        "size": f"{height}x{width}",
        "encoded": form.encoded or "no",
    }
    shuffled = [entries[i] for i in np.random.default_rng(order).permutation(len(entries))]
    records = partial(_records, path, shuffled, form, jobs, skip_unreadable, f"; {remedy}")
    return plan_of_files(path, entries, classes, origin, records, form.reading, jobs)


def plan_of_files(
    path: Path,
    entries: Sequence[Entry],
    classes: tuple[str, ...],
    origin: Mapping[str, str | int],
    make: Callable[[], NewRecords],
    reading: Reading,
    jobs: int,
) -> PlannedLmdb:
    """Plan an LMDB that ``make`` makes of image files; ``origin`` describes how.

    The files are compared by their contents.

    ``reading`` is compared as far as some pictures depend on it.
    """
    named = {"part": path.name, "images": len(entries), FINGERPRINT: _fingerprint(entries)}
    now = str(Digest([("files", stamp(entry.path for entry in entries)), ("reading", str(reading))]))
    material = Material(now, partial(_read, path.name, entries, reading, jobs, now))
    return PlannedLmdb(path, {**origin, **named}, make, classes, material=material)


def _records(path: Path, entries: Sequence[Entry], form: Format, jobs: int, skip: bool, remedy: str) -> NewRecords:
    """Return the records of images. Refuses, at the end, images of which none can be read."""

    def items() -> Iterator[tuple[str, Datum]]:
        stored = 0
        for entry, made in make_readable(entries, form, jobs, skip=skip, remedy=remedy):
            yield entry.name, made.datum(entry.label)
            stored += 1
        if not stored:
            raise ProgramError(f"{path}: none of the {len(entries)} images could be read")

    return NewRecords(len(entries), items())


def _fingerprint(entries: Sequence[Entry]) -> str:
    """Return a hash of the images' names, labels and sizes on disk."""
    digest = hashlib.sha256()
    for entry in entries:
        digest.update(f"{entry.name}\0{entry.label}\0{size(entry.path)}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()[:16]


def _read(name: str, entries: Sequence[Entry], reading: Reading, jobs: int, now: str) -> MadeOf:
    """Return a hash of the images' names and contents, and the options on which their pixels depend.

    Unreadable files count as empty.
    """
    depends: dict[str, str] = {}

    def contents(entry: Entry) -> tuple[str, bytes]:
        try:
            data = file_contents(entry.file)
        except OSError:
            return entry.name, b""
        depends.update(decided_by(data, reading))
        return entry.name, data

    read = in_threads(contents, entries, jobs)
    hashed = str(Digest(tqdm(read, f"hash {name}", len(entries), unit="img", delay=2, leave=False)))
    return MadeOf(hashed, now, reading=depends)
