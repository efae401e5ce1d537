"""Choose the records of an LMDB that a training reads, so that all classes have equal shares in each domain."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from latent_domains.common.files import expect_file, read_text
from latent_domains.common.program import ProgramError
from latent_domains.data import lmdb_io
from latent_domains.data.lmdb_folder import Note, check_up_to_date, write_note

Numbers = NDArray[np.int64]


def equal_classes(labels: Numbers, domains: Numbers) -> Numbers:
    """Return the numbers of the records to read: each record at least once, some several times.

    ``labels`` and ``domains`` are the class and the domain of each record (n). In each domain, all classes that it has
    get equal shares; the domain keeps its own share. The most frequent class is read once.
    """
    pairs, counts = np.unique(np.stack([domains, labels]), axis=1, return_counts=True)
    in_domain = {domain: counts[pairs[0] == domain].mean() for domain in np.unique(domains)}
    times = np.array([in_domain[domain] for domain in pairs[0]]) / counts
    chosen = [
        np.resize(np.flatnonzero((domains == domain) & (labels == label)), round(count * factor))
        for domain, label, count, factor in zip(*pairs, counts, times / times.min(), strict=True)
    ]
    return np.concatenate(chosen).astype(np.int64)


def write_numbers(file: Path, numbers: Numbers, seed: Sequence[int], images: Path) -> None:
    """Write numbers of records of the LMDB ``images`` to a text file, in an order drawn by ``seed``.

    A note in the same folder identifies these records.
    """
    file.parent.mkdir(parents=True)
    order = np.random.default_rng(seed).permutation(len(numbers))
    file.write_text("".join(f"{number}\n" for number in numbers[order]))
    write_note(file.parent, Note(made_of=lmdb_io.material(images).read()))


def check_numbers(file: Path, images: Path, remedy: str) -> None:
    """Raise ProgramError, with the ``remedy``, unless ``file`` has numbers of records of the LMDB ``images``.

    It fails, too, if these records have changed since the file was written.
    """
    expect_file(file, f"numbers of records; {remedy}")
    records = lmdb_io.count(images)
    try:
        numbers = np.array(read_text(file).split(), np.int64)
    except (ValueError, OverflowError):  # no number, or none of 64 bits
        numbers = np.zeros(0, np.int64)
    if not numbers.size or numbers.min() < 0 or numbers.max() >= records:
        raise ProgramError(f"{file}: expected numbers from 0 to {records - 1}, of records of {images.name}; {remedy}")
    check_up_to_date(file.parent, remedy, lmdb_io.contents)
