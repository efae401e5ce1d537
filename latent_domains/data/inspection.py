"""Inspect people's pictures before they are read: look for more than 8 bits, and for copies."""

import hashlib
import sys
from argparse import Namespace
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from tqdm import tqdm

from latent_domains.common.arguments import RANGE
from latent_domains.common.in_threads import in_threads
from latent_domains.common.wording import count_of
from latent_domains.data.domain_images import TaskImages
from latent_domains.data.image_datum import file_contents
from latent_domains.data.image_list import UNKNOWN, Entry, printable, size
from latent_domains.data.pixels import BEGINNINGS, deep_values
from latent_domains.data.preprocessing import USUAL, Reading

_SHALLOW = (".bmp", ".gif", ".jfif", ".jpeg", ".jpg", ".pgm", ".ppm", ".webp")
"""Endings of names of files that have 8 bits, or whose header says which value is white."""


def chosen_reading(options: Namespace, entries: Sequence[Entry], usual: Reading = USUAL) -> Reading:
    """Return how ``entries`` are read: by the options (``add_reading_options``, ``jobs``), or else by ``usual``.

    Without a range, it looks for pictures of more than 8 bits. The range that all of them use becomes black to white,
    and a note on stderr says so. Unsigned whole numbers begin at 0 and end at 255, 511, … or 32,767. Pictures that use
    all 16 bits need no range.
    """
    given = {"background": options.background, "range": options.range}
    reading = replace(usual, **{name: value for name, value in given.items() if value is not None})
    if reading.range is not None:
        return reading
    may_be_deep = [entry for entry in entries if not entry.path.lower().endswith(_SHALLOW)]
    found = in_threads(_ends, may_be_deep, options.jobs)
    looked = tqdm(found, "look for more than 8 bits", len(may_be_deep), unit="img", delay=2, leave=False)
    deep = [(entry, ends) for entry, ends in zip(may_be_deep, looked, strict=True) if ends]
    if not deep:
        return reading
    low, high = min(ends[0] for _, ends in deep), max(ends[1] for _, ends in deep)
    black, white = low, high
    if all(ends[2] for _, ends in deep):  # whole numbers without a sign
        black, white = 0, 2 ** max(ends[2] for _, ends in deep) - 1
    if (black, white) == (0, 65535) or not black < white:
        return reading
    number, file = count_of(len(deep), "picture"), printable(deep[0][0].file)
    tqdm.write(
        f"note: {number} of more than 8 bits, such as {file}, with values from {low:g} to {high:g}: {black:g} becomes "
        f"black, {white:g} white ({RANGE})",
        file=sys.stderr,
    )
    return replace(reading, range=(black, white))


def _ends(entry: Entry) -> tuple[float, float, int] | None:
    """Return the smallest and the largest value of a picture of more than 8 bits, and how many bits it uses.

    Bits are 0 for signed values and fractions. Returns None for any other file.
    """
    try:
        head = file_contents(entry.file, 32)
        if head.startswith(BEGINNINGS["png"]) and head[24:25] == b"\x08":  # most are of this kind
            return None
        found = deep_values(file_contents(entry.file))
    except OSError:
        return None
    if found is None or not np.isfinite(found[0]).any():
        return None
    values = found[0][np.isfinite(found[0])]
    low, high = float(values.min()), float(values.max())
    bits = max(8, int(high).bit_length(), found[1] if found[1] < 16 else 0) if values.dtype == np.uint16 else 0
    return low, high, bits


def copies(entries: Sequence[Entry], jobs: int) -> list[list[Entry]]:
    """Return the entries of each picture that occurs several times, in their order.

    Only files of equal size are read.
    """
    of_file: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        of_file[entry.path].append(entry)
    sizes = {file: size(file) for file in of_file}
    of_size = Counter(sizes.values())

    def contents(file: str) -> str:
        """Return a hash of the file; its name if no other file has its size, or if it cannot be read."""
        try:
            may_be_one = sizes[file] and of_size[sizes[file]] > 1
            return hashlib.sha256(file_contents(Path(file))).hexdigest() if may_be_one else file
        except OSError:
            return file

    found: dict[str, list[Entry]] = defaultdict(list)
    for file, hashed in zip(of_file, in_threads(contents, of_file, jobs), strict=True):
        found[hashed] += of_file[file]
    return [group for group in found.values() if len(group) > 1]


def notes_on_copies(images: TaskImages, jobs: int) -> Iterator[str]:
    """Yield notes on pictures with several classes, and on the targets' pictures that are also in the sources."""
    groups = copies(images.entries, jobs)
    yield from notes_on_labels(groups)
    of_sources = {entry.path for source in images.sources for entry in source.entries}
    for target in images.targets:
        ours = {entry.path for entry in target.entries}
        shared = [
            (entry, next(other for other in group if other.path in of_sources))
            for group in groups
            if any(other.path in of_sources for other in group)
            for entry in group
            if entry.path in ours
        ]
        if shared:
            (entry, other), number = shared[0], count_of(len(target.entries), "picture")
            tested = ": their labels are trained on, so the accuracy, which counts them, is too high" * target.labelled
            yield (
                f"{target.folder}: {len(shared)} of {number} are also in a source, such as {printable(entry.file)} and "
                f"{printable(other.file)}{tested}; leave them out of one of the two"
            )


def notes_on_labels(groups: Sequence[Sequence[Entry]]) -> Iterator[str]:
    """Yield a note on the groups of copies that have several labels."""
    several = [group for group in groups if len({entry.label for entry in group} - {UNKNOWN}) > 1]
    if several:
        first = several[0][0]
        other = next(entry for entry in several[0] if entry.label not in (first.label, UNKNOWN))
        places = f"{printable(first.file)} and {printable(other.file)}"
        yield f"{count_of(len(several), 'picture')}: the same picture in two classes, such as {places}"
