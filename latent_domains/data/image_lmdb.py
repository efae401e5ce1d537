"""LMDBs of image files: at once, or as a part with a note that tells whether they are still the same."""

import hashlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from latent_domains.common.program import ProgramError
from latent_domains.data import lmdb_io, lmdb_plans
from latent_domains.data.image_datum import Format, make_readable
from latent_domains.data.image_list import Entry, size
from latent_domains.data.lmdb_plans import FINGERPRINT, NewRecords, PlannedLmdb


def build(
    entries: list[Entry],
    out: Path,
    form: Format,
    *,
    jobs: int = 1,
    classes: list[str] | None = None,
    skip_unreadable: bool = False,
    force: bool = False,
) -> tuple[int, int]:
    """Write the images to a new LMDB at ``out``, in the order of ``entries``. Return how many were stored and skipped.

    Raises ProgramError naming the first unreadable image (unless it may be skipped), if nothing is left to store or,
    before any is read, if a name is too long.
    """
    for entry in entries:
        lmdb_io.check_name(entry.name, "name it by a path from --root" if classes is None else SHORTEN)
    sizes: set[tuple[int, ...]] = set()
    remedy = " (--skip-unreadable leaves such images out)"

    def items() -> Iterator[tuple[str, bytes]]:
        for entry, made in make_readable(entries, form, jobs, skip=skip_unreadable, remedy=remedy):
            sizes.add(made.shape)
            yield entry.name, made.datum
        if not sizes:
            raise ProgramError(f"none of the {len(entries)} images could be read")

    part = PlannedLmdb(out, {}, lambda: NewRecords(len(entries), items()), tuple(classes or ()))
    stored = lmdb_plans.build(part, force=force)
    if len(sizes) > 1:
        print(
            f"note: the images have {len(sizes)} different sizes; without --resize a Data layer takes them only one at "
            "a time, and compute_image_mean not at all",
            file=sys.stderr,
        )
    return stored, len(entries) - stored


SHORTEN = "shorten the names of its folders"
"""Advice where the folders of a tree make a record's name too long."""

VERSION = 1
"""Raised whenever the same images and seed give other records or another order."""


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
    """Return a part of image files, resized as ``form`` says, in an order drawn by the seed ``order``.

    ``program`` makes it, by the seed ``order[0]``. No image is read before the part is built. One that cannot be read
    is then named on stderr and left out or, unless ``skip_unreadable``, an error that ends in the words ``remedy``.
    Raises ProgramError if a name is too long.
    """
    for entry in entries:
        lmdb_io.check_name(entry.name, SHORTEN)
    height, width = form.resize or (0, 0)
    origin = {
        "program": program,
        "part": path.name,
        "seed": order[0],
        "version": VERSION,
        "size": f"{height}x{width}",
        "encoded": form.encoded or "no",
        "images": len(entries),
        FINGERPRINT: _fingerprint(entries),
    }

    def records() -> NewRecords:
        shuffled = [entries[i] for i in np.random.default_rng(order).permutation(len(entries))]
        readable = make_readable(shuffled, form, jobs, skip=skip_unreadable, remedy=f"; {remedy}")
        return NewRecords(len(shuffled), ((entry.name, made.datum) for entry, made in readable))

    return PlannedLmdb(path, origin, records, classes)


def _fingerprint(entries: Sequence[Entry]) -> str:
    """Return a hash of the images' names, labels and sizes on disk: a tree that was changed is noticed by them.

    But for files that were replaced by others of the same size: uncompressed ones of one geometry all have it.
    """
    digest = hashlib.sha256()
    for entry in entries:
        digest.update(f"{entry.name}\0{entry.label}\0{size(entry.path)}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()[:16]
