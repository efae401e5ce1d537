"""Pictures that lie at two places with the same contents."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from latent_domains.common.in_threads import in_threads
from latent_domains.common.wording import count_of
from latent_domains.data.domain_images import TaskImages
from latent_domains.data.image_datum import file_contents
from latent_domains.data.image_list import UNKNOWN, Entry, printable, size


def copies(entries: Sequence[Entry], jobs: int) -> list[list[Entry]]:
    """Return the entries of each picture that has several, in their order. Only files of equal size are read."""
    of_file: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        of_file[entry.path].append(entry)
    sizes = {file: size(file) for file in of_file}
    of_size = Counter(sizes.values())

    def contents(file: str) -> str:
        """A hash of the file; its name if no other one has its size, or if it cannot be read."""
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
    """Notes on pictures of several classes, and on the targets' pictures that are also in the sources."""
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
    """A note on the groups of the same picture that have several labels."""
    several = [group for group in groups if len({entry.label for entry in group} - {UNKNOWN}) > 1]
    if several:
        first = several[0][0]
        other = next(entry for entry in several[0] if entry.label not in (first.label, UNKNOWN))
        places = f"{printable(first.file)} and {printable(other.file)}"
        yield f"{count_of(len(several), 'picture')}: the same picture in two classes, such as {places}"
