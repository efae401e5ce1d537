"""The files of an LMDB's folder, among them a note with how it was made, and hashes of its material and contents.

Hashes need all of a file to be read. So there is a stamp beside each (:func:`~latent_domains.common.files.stamp`):
while the files have this stamp, the hash is valid. This module does not import Caffe.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from latent_domains.common.files import expect_file, json_text, read_text, stamp, write_text
from latent_domains.common.program import ROOT, ProgramError
from latent_domains.common.validation import checked

NOTE = "source.json"
"""The note in each LMDB folder."""

CLASSES = "classes.txt"
"""File in an LMDB folder with the names of the classes in the order of their labels, one per line."""

DOMAINS = "domains.txt"
"""File of a mixture with the name of the LMDB of each record, one per line, in their order."""

_OURS = frozenset({"data.mdb", "lock.mdb", NOTE, CLASSES, DOMAINS})


def is_lmdb(folder: Path) -> bool:
    """Say whether a folder contains an LMDB, whole or damaged."""
    return (folder / "data.mdb").is_file()


def other_files(folder: Path) -> list[str]:
    """Return the names of files in a folder that do not belong to an LMDB of ours, sorted; of a file its own name."""
    inside = folder.iterdir() if folder.is_dir() else [folder]
    left = f".{NOTE}."  # of a program that was killed while it wrote the note again
    return sorted(path.name for path in inside if path.name not in _OURS and not path.name.startswith(left))


@dataclass(frozen=True)
class MadeOf:
    """The pictures, or the other ``lmdbs``, from which an LMDB was made, as they were when they were read."""

    sha256: str
    stamp: str
    lmdbs: dict[str, str] = field(default_factory=dict)
    """The hash of the records of each."""
    reading: dict[str, str] = field(default_factory=dict)
    """The options on which the pixels of some pictures depend, and their values."""


@dataclass(frozen=True)
class Note:
    """The contents of a note; empty for an LMDB that another program made."""

    recipe: dict[str, Any] = field(default_factory=dict)
    """All that was requested; empty for LMDBs that no later run compares with its request."""
    records: int | None = None
    sha256: str | None = None
    """The hash of all keys and values, in their order."""
    stamp: str | None = None
    """The stamp of the LMDB's file."""
    made_of: MadeOf | None = None

    def text(self) -> str:
        """Return the text of the file."""
        return json_text({key: value for key, value in asdict(self).items() if value is not None})


@dataclass(frozen=True)
class Material:
    """What an LMDB is to be made of. The stamp is taken first, so that a change during reading is noticed."""

    stamp: str
    read: Callable[[], MadeOf]
    """Read all of it."""


def read_note(lmdb: Path) -> Note:
    """Read the note; return an empty one if it is missing or damaged."""
    file = lmdb / NOTE
    try:
        expect_file(file, "a file of JSON")  # a FIFO would be waited for
        return checked(Note, json.loads(read_text(file)), NOTE)
    except (OSError, ValueError, RecursionError, ProgramError):
        return Note()


def write_note(lmdb: Path, note: Note) -> None:
    """Write the note of an LMDB."""
    write_text(lmdb / NOTE, note.text())


def stamp_of(*lmdbs: Path) -> str:
    """Return the stamp of the files of LMDBs."""
    return stamp(lmdb / "data.mdb" for lmdb in lmdbs)


def noted_contents(lmdb: Path) -> str | None:
    """Return the hash of an LMDB's records from its note; None if there is none, or if the file has changed since."""
    note = read_note(lmdb)
    return note.sha256 if note.stamp == stamp_of(lmdb) else None


def check_up_to_date(lmdb: Path, remedy: str, contents: Callable[[Path], str | None] = noted_contents) -> None:
    """Raise ProgramError if an LMDB was made of another one whose records have changed since.

    ``contents`` returns the hash of an LMDB's records. An LMDB whose hash is not known (None), or that does not exist
    any more, counts as unchanged.
    """
    made_of = read_note(lmdb).made_of
    for name, before in made_of.lmdbs.items() if made_of else ():
        if is_lmdb(ROOT / name) and contents(ROOT / name) not in (None, before):
            raise ProgramError(f"{lmdb}: it was made of other records than are now in {ROOT / name}; {remedy}")
