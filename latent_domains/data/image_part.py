"""An LMDB of image files, with a note that tells whether they are still the same."""

import hashlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from tqdm import tqdm

from latent_domains.common.program import ProgramError
from latent_domains.data.image_datum import Format, make_all
from latent_domains.data.image_list import Entry
from latent_domains.data.parts import FINGERPRINT, Part, Records

VERSION = 1
"""Raised whenever the same images and seed give other records or another order."""


def image_part(
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
) -> Part:
    """Return a part of image files, resized as ``form`` says, in an order drawn by the seed ``order``.

    ``program`` makes it, by the seed ``order[0]``. No image is read before the part is built. One that cannot be read
    is then named on stderr and left out or, unless ``skip_unreadable``, an error that ends in the words ``remedy``.
    """
    height, width = form.resize or (0, 0)
    recipe = {
        "program": program,
        "part": path.name,
        "seed": order[0],
        "version": VERSION,
        "size": f"{height}x{width}",
        "encoded": form.encoded or "no",
        "images": len(entries),
        FINGERPRINT: _fingerprint(entries),
    }

    def records() -> Records:
        shuffled = [entries[i] for i in np.random.default_rng(order).permutation(len(entries))]
        return Records(len(shuffled), _records(shuffled, form, jobs, remedy, skip_unreadable))

    return Part(path, recipe, records, classes)


def _fingerprint(entries: Sequence[Entry]) -> str:
    """Return a hash of the images' names, labels and sizes on disk: a tree that was changed is noticed by them."""
    lines = (f"{entry.name}\0{entry.label}\0{entry.file.stat().st_size}\n" for entry in entries)
    return hashlib.sha256("".join(lines).encode(errors="surrogateescape")).hexdigest()[:16]


def _records(
    entries: Sequence[Entry], form: Format, jobs: int, remedy: str, skip_unreadable: bool
) -> Iterator[tuple[str, bytes]]:
    """Yield the records. Raises ProgramError naming the first image that cannot be read, unless it may be skipped."""
    for entry, one in zip(entries, make_all(entries, form, jobs), strict=True):
        if one.failure is None:
            yield entry.name, one.datum
        elif skip_unreadable:
            tqdm.write(f"left out {entry.file}: {one.failure}", file=sys.stderr)
        else:
            raise ProgramError(f"{entry.file}: {one.failure}; {remedy}")
