"""Planned LMDBs: each is built with a note of how, by which the next run sees that it exists already."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from caffe.proto.caffe_pb2 import Datum
from numpy.typing import NDArray
from tqdm import tqdm

from latent_domains.common.artefact import Artefact
from latent_domains.common.files import is_absent, read_text
from latent_domains.common.program import ProgramError
from latent_domains.common.wording import some
from latent_domains.data import lmdb_io
from latent_domains.data.image_list import read_classes
from latent_domains.data.lmdb_folder import (
    CLASSES,
    DOMAINS,
    NOTE,
    Material,
    Note,
    is_lmdb,
    read_note,
    stamp_of,
    write_note,
)

FINGERPRINT = "fingerprint"
"""Key of an origin: a hash of facts about the images that are quick to read.

The note's ``made_of`` has a hash of all.
"""

Images = tuple[NDArray[np.uint8] | NDArray[np.float64], NDArray[np.int64]]
"""Images (n×H×W gray or n×H×W×3 BGR, uint8), or features (n×d), and their labels (n)."""


@dataclass(frozen=True)
class NewRecords:
    """The records of a new LMDB, in their order."""

    count: int
    items: Iterator[tuple[str, Datum | bytes]]
    """Each record's name and its Datum, perhaps serialised."""


@dataclass(frozen=True)
class PlannedLmdb(Artefact):
    """An LMDB to be made: where, from what, and how."""

    path: Path
    origin: Mapping[str, str | int]
    """All that decides the contents. The note has it under ``recipe``, for a later run to compare."""
    records: Callable[[], NewRecords]
    """Reads the material and returns the records."""
    classes: tuple[str, ...] = ()
    """Names of the classes in the order of their labels, if they have any: written to CLASSES."""
    domains: Sequence[str] = ()
    """The domain of each record of a mixture: written to DOMAINS."""
    material: Material | None = None
    """The files that are read for it; None if ``origin`` identifies them."""

    @property
    def paths(self) -> tuple[Path]:
        return (self.path,)

    def is_there(self, *, force: bool = False) -> bool:
        """Say whether it was built before from the same origin.

        Refuses other files at its place, even with ``force``.
        """
        if is_absent(self.path):
            return False
        if not is_lmdb(self.path):
            raise ProgramError(f"{self.path}: found other files, expected an LMDB or nothing; choose another --out")
        try:
            lmdb_io.count(self.path)  # whole and undamaged
            if different := self._difference():
                raise ProgramError(f"{self.path}: {different}; pass --force to replace it, or name another folder")
        except ProgramError:
            if force:
                return False
            raise
        return True

    def _difference(self) -> str:
        """Describe how it differs from the note and the files beside it; empty if it does not.

        It reads nothing if the stamps are equal. If only stamps differ, the note gets new ones.
        """
        note, file = read_note(self.path), self.path / DOMAINS
        if not note.recipe or note.sha256 is None or (self.material and not note.made_of):
            return f"exists, but without a {NOTE} that says how it was made"
        if differences := _differences(note.recipe, self.origin):
            return f"made with {differences}"
        if classes_of(self.path) != self.classes:
            return "made with other classes"
        if self.domains and not (file.is_file() and read_text(file).splitlines() == list(self.domains)):
            return f"its {DOMAINS} is missing or was changed"
        made_of, stamp = note.made_of, stamp_of(self.path)
        if self.material and made_of.stamp != self.material.stamp:
            made_of = self.material.read()
            if made_of.sha256 != note.made_of.sha256:
                return f"made with other images: their sha256 was {note.made_of.sha256}, is {made_of.sha256}"
            if differences := _differences(note.made_of.reading, made_of.reading):
                return f"made with {differences}"
        found = replace(note, sha256=lmdb_io.contents(self.path), stamp=stamp, made_of=made_of)
        if found.sha256 != note.sha256:
            return f"changed since it was made: the sha256 of its records was {note.sha256}, is {found.sha256}"
        if found != note:
            with suppress(OSError):  # of a folder that is only read
                write_note(self.path, found)
        return ""

    def make(self, *, force: bool = False) -> int | None:
        """Build it; return the number of records, or None if another process has made it meanwhile."""
        try:
            return self.build(force=force)
        except ProgramError:
            if force or not self.is_there():
                raise
            return None

    def build(self, *, force: bool = False) -> int:
        """Build it. Return the number of records, which may be smaller than announced."""
        made_of = self.material.read() if self.material else None
        records = self.records()
        with lmdb_io.create(self.path, force=force) as (writer, folder):
            for name, datum in tqdm(records.items, desc=self.path.name, total=records.count, unit="img"):
                writer.put(name, datum)
            for file, lines in ((CLASSES, self.classes), (DOMAINS, self.domains)):
                if lines:
                    (folder / file).write_text("".join(f"{line}\n" for line in lines))
            writer.note = Note(dict(self.origin), made_of=made_of)
        return writer.records

    def report(self, made: int | None) -> None:
        print(f"{self.path}: built before" if made is None else f"{self.path}: {made} images")


def plan_of_arrays(
    path: Path,
    origin: Mapping[str, str | int],
    make: Callable[[], Images],
    order: tuple[int, ...],
    classes: tuple[str, ...] = (),
) -> PlannedLmdb:
    """Plan an LMDB of what ``make`` returns, images as colour images, in an order drawn by the seed ``order``.

    Gray images are repeated in all three channels. A record's name is its index in the source.
    """

    def records() -> NewRecords:
        images, labels = make()

        def items() -> Iterator[tuple[str, Datum]]:
            for i in np.random.default_rng(order).permutation(len(images)):
                yield f"{path.name}_{i:05d}", datum(images[i], int(labels[i]))

        def datum(image: NDArray[Any], label: int) -> Datum:
            if image.ndim == 1:
                return lmdb_io.feature_datum(image, label)
            colour = image if image.ndim == 3 else np.repeat(image[..., np.newaxis], 3, axis=2)
            return lmdb_io.image_datum(colour, label)

        return NewRecords(len(images), items())

    return PlannedLmdb(path, origin, records, classes)


def features_of(lmdb: Path) -> dict[str, Any]:
    """Return how an LMDB's features were made, from its note; empty if the note describes no features."""
    origin = read_note(lmdb).recipe
    return {key: value for key, value in origin.items() if key not in _OF_RECORDS} if "backbone" in origin else {}


_OF_RECORDS = ("program", "part", "images", FINGERPRINT, "inputs", "shares", "seed")
"""Keys of an origin of features, or of a mixture of them, that do not say how an image becomes a feature."""


def common_features(lmdbs: Sequence[Path]) -> dict[str, Any]:
    """Return how the features were made, if all LMDBs agree. Refuses different descriptions."""
    features = {path: found for path in lmdbs if (found := features_of(path))}
    first = next(iter(features), None)
    for path, found in features.items():
        if differences := _differences(found, features[first]):
            raise ProgramError(f"{path}: features made with {differences}, as those of {first} are; expected the same")
    return features[first] if len(features) == len(lmdbs) else {}


def classes_of(lmdb: Path) -> tuple[str, ...]:
    """Return the names of the classes in the order of their labels; empty if the LMDB's folder does not have them."""
    return tuple(read_classes(lmdb / CLASSES)) if (lmdb / CLASSES).is_file() else ()


def common_classes(lmdbs: Sequence[Path]) -> tuple[str, ...]:
    """Return the names of the classes, if all LMDBs have them; print a note if only some do.

    Refuses LMDBs in which a label means different classes.
    """
    classes = {path: names for path in lmdbs if (names := classes_of(path))}
    first, silent = next(iter(classes), None), [path for path in lmdbs if path not in classes]
    for path, names in classes.items():
        if names != classes[first]:
            raise ProgramError(f"{path / CLASSES}: other classes than in {first / CLASSES}, expected the same")
    if first and silent:
        labels = some(f"{label} {name}" for label, name in enumerate(classes[first]))
        tqdm.write(
            f"note: {some(map(str, silent), 3)}: no {CLASSES} explains its labels; make sure that they mean the same "
            f"as in {first} ({labels})",
            file=sys.stderr,
        )
    return () if silent else classes[first]


def _differences(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """Describe all differences in words; empty if there are none.

    Earlier notes of features have a fingerprint beside their images' hash.
    """
    found = {key: value for key, value in found.items() if key != FINGERPRINT or FINGERPRINT in wanted}
    said = {key: f"{key} {found.get(key)!r} instead of {wanted.get(key)!r}" for key in sorted({*found, *wanted})}
    said[FINGERPRINT] = "other images"
    return ", ".join(text for key, text in said.items() if found.get(key) != wanted.get(key))
