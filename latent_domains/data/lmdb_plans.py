"""LMDBs that are planned: each is built with a note of how, by which the next run knows that it is there already."""

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

from latent_domains.common.files import is_absent, read_text
from latent_domains.common.program import ProgramError
from latent_domains.common.wording import some
from latent_domains.data import lmdb_io
from latent_domains.data.image_list import read_classes
from latent_domains.data.lmdb_folder import CLASSES, DOMAINS, NOTE, is_lmdb
from latent_domains.data.lmdb_note import Material, Note, read_note, stamp_of, write_note

FINGERPRINT = "fingerprint"
"""Key of an origin: a hash of what costs little to read of the images. That of all is in the note's ``made_of``."""

Images = tuple[NDArray[np.uint8] | NDArray[np.float64], NDArray[np.int64]]
"""Images (n×H×W gray or n×H×W×3 BGR, uint8), or features (n×d), and their labels (n)."""


@dataclass(frozen=True)
class NewRecords:
    """The records of a new LMDB, in their order."""

    count: int
    items: Iterator[tuple[str, Datum | bytes]]
    """Each record's name and its Datum, serialised or not."""


@dataclass(frozen=True)
class PlannedLmdb:
    """An LMDB to be made: where, from what, and how."""

    path: Path
    origin: Mapping[str, str | int]
    """All that decides the contents; in the note, where it is the key ``recipe``, for a later run to compare."""
    make: Callable[[], NewRecords]
    classes: tuple[str, ...] = ()
    """Names of the classes in the order of their labels, if they have any: written to CLASSES."""
    domains: Sequence[str] = ()
    """Of a mixture, the domain that each record is from: written to DOMAINS."""
    material: Material | None = None
    """What is read for it; None where ``origin`` says which."""


def plan_of_arrays(
    path: Path,
    origin: Mapping[str, str | int],
    make: Callable[[], Images],
    order: tuple[int, ...],
    classes: tuple[str, ...] = (),
) -> PlannedLmdb:
    """Return a part of what ``make`` returns, images as colour images, in an order drawn by the seed ``order``.

    Gray images are repeated in all three channels. A record's name says its place in the source.
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


def is_built(part: PlannedLmdb, *, force: bool = False) -> bool:
    """Say whether ``part`` was built before from the same origin.

    Raises ProgramError if another LMDB is in its place, unless ``force`` allows to replace it, or if other files are.
    """
    if is_absent(part.path):
        return False
    if not is_lmdb(part.path):
        raise ProgramError(f"{part.path}: found other files, expected an LMDB or nothing; choose another --out")
    note = read_note(part.path)
    if not note.recipe or note.sha256 is None or (part.material and not note.made_of):
        different = f"exists, but without a {NOTE} that says how it was made"
    elif differences := _differences(note.recipe, part.origin):
        different = f"made with {differences}"
    elif classes_of(part.path) != part.classes:
        different = "made with other classes"
    elif part.domains and _domains_of(part.path) != list(part.domains):
        different = f"its {DOMAINS} is missing or was changed"
    else:
        try:
            lmdb_io.count(part.path)  # whole and undamaged
        except ProgramError:
            if force:
                return False
            raise
        found = _compared(part, note)
        if not (different := _other_contents(note, found)):
            if found != note:
                with suppress(OSError):  # of a folder that is only read
                    write_note(part.path, found)
            return True
    if force:
        return False
    raise ProgramError(f"{part.path}: {different}; pass --force to replace it, or name another folder")


def _compared(part: PlannedLmdb, note: Note) -> Note:
    """The note with the hashes as they are now. Nothing is read where stamps say that nothing has changed."""
    made_of, stamp = note.made_of, stamp_of(part.path)
    if part.material and made_of.stamp != part.material.stamp:
        made_of = part.material.read()
    return replace(note, sha256=lmdb_io.contents(part.path), stamp=stamp, made_of=made_of)


def _other_contents(note: Note, found: Note) -> str:
    """What differs from the contents in a note, in words; empty if nothing does."""
    if note.made_of and note.made_of.sha256 != found.made_of.sha256:
        return f"made with other images: their sha256 was {note.made_of.sha256}, is {found.made_of.sha256}"
    if note.made_of and (different := _differences(note.made_of.reading, found.made_of.reading)):
        return f"made with {different}"
    if note.sha256 != found.sha256:
        return f"changed since it was made: the sha256 of its records was {note.sha256}, is {found.sha256}"
    return ""


def features_of(lmdb: Path) -> dict[str, Any]:
    """How an LMDB's features were made, from its note; empty if the note says nothing of features."""
    origin = read_note(lmdb).recipe
    return {key: value for key, value in origin.items() if key not in _OF_RECORDS} if "backbone" in origin else {}


_OF_RECORDS = ("program", "part", "images", FINGERPRINT, "inputs", "shares", "seed")
"""Keys of an origin of features, or of a mixture of them, that do not say how an image becomes a feature."""


def common_features(lmdbs: Sequence[Path]) -> dict[str, Any]:
    """How the features were made, if all LMDBs say so. Raises ProgramError if two of them say different things."""
    features = {path: found for path in lmdbs if (found := features_of(path))}
    first = next(iter(features), None)
    for path, found in features.items():
        if differences := _differences(found, features[first]):
            raise ProgramError(f"{path}: features made with {differences}, as those of {first} are; expected the same")
    return features[first] if len(features) == len(lmdbs) else {}


def classes_of(lmdb: Path) -> tuple[str, ...]:
    """Names of the classes in the order of their labels; empty if the LMDB's folder does not have them."""
    file = lmdb / CLASSES
    return tuple(read_classes(file)) if file.is_file() else ()


def _domains_of(lmdb: Path) -> list[str]:
    """What the folder says of each record's domain; empty if it says nothing."""
    return read_text(lmdb / DOMAINS).splitlines() if (lmdb / DOMAINS).is_file() else []


def common_classes(lmdbs: Sequence[Path]) -> tuple[str, ...]:
    """The names of the classes, if all LMDBs have them. Raises ProgramError if a label would mean two things."""
    classes = {path: names for path in lmdbs if (names := classes_of(path))}
    first = next(iter(classes), None)
    for path, names in classes.items():
        if names != classes[first]:
            raise ProgramError(f"{path / CLASSES}: other classes than in {first / CLASSES}, expected the same")
    return classes[first] if len(classes) == len(lmdbs) else ()


def note_on_classes(lmdbs: Sequence[Path]) -> None:
    """Print a note if some LMDBs say what their labels mean, and others do not."""
    silent = [lmdb for lmdb in lmdbs if not classes_of(lmdb)]
    if silent and len(silent) < len(lmdbs):
        named = next(lmdb for lmdb in lmdbs if lmdb not in silent)
        labels = some(f"{label} {name}" for label, name in enumerate(classes_of(named)))
        tqdm.write(
            f"note: {some(map(str, silent), 3)}: no {CLASSES} says what its labels mean; make sure that it is what "
            f"those of {named} mean ({labels})",
            file=sys.stderr,
        )


def _differences(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """All that differs, in words; empty if nothing does. Features had a fingerprint once, beside their images' hash."""
    found = {key: value for key, value in found.items() if key != FINGERPRINT or FINGERPRINT in wanted}
    said = {key: f"{key} {found.get(key)!r} instead of {wanted.get(key)!r}" for key in sorted({*found, *wanted})}
    said[FINGERPRINT] = "other images"
    return ", ".join(text for key, text in said.items() if found.get(key) != wanted.get(key))


def build(part: PlannedLmdb, *, force: bool = False) -> int:
    """Make the LMDB. Return the number of records, which may be fewer than those announced."""
    made_of = part.material.read() if part.material else None
    records = part.make()
    with lmdb_io.create(part.path, force=force) as (writer, folder):
        for name, datum in tqdm(records.items, desc=part.path.name, total=records.count, unit="img"):
            writer.put(name, datum)
        for file, lines in ((CLASSES, part.classes), (DOMAINS, part.domains)):
            if lines:
                (folder / file).write_text("".join(f"{line}\n" for line in lines))
        writer.note = Note(dict(part.origin), made_of=made_of)
    return writer.records


def build_missing(parts: list[PlannedLmdb], *, force: bool = False) -> int:
    """Build the LMDBs that are not there yet, after making sure that no other one is in the way of any.

    Returns the number of records in those that were built.
    """
    built = 0
    standing = [is_built(part, force=force) for part in parts]
    for part, done in zip(parts, standing, strict=True):
        records = 0
        if not done:
            try:
                records = build(part, force=force)
            except ProgramError:
                if force or not is_built(part):  # or another process has made it meanwhile
                    raise
                done = True
        print(f"{part.path}: built before" if done else f"{part.path}: {records} images")
        built += records
    return built
