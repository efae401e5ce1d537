"""The note in an LMDB's folder: how it was made, and hashes of what it was made of and of what it holds.

A hash costs reading. So there is a stamp beside each (:func:`~latent_domains.common.contents.stamp`): while it is that
of the files, the hash is theirs. This module does not import Caffe.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from latent_domains.common.contents import Digest, stamp
from latent_domains.common.files import json_text, write_text
from latent_domains.common.program import ROOT, ProgramError, from_root
from latent_domains.common.validation import checked
from latent_domains.common.wording import some
from latent_domains.data.lmdb_folder import NOTE, is_lmdb


@dataclass(frozen=True)
class MadeOf:
    """The pictures, or the other ``lmdbs``, that an LMDB was made of, when they were read."""

    sha256: str
    stamp: str
    lmdbs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Note:
    """What a note says. Earlier versions wrote the first two alone."""

    recipe: dict[str, Any] = field(default_factory=dict)
    """All that was asked for; empty for LMDBs that no later run compares with what it wants."""
    records: int | None = None
    sha256: str | None = None
    """The hash of all keys and values, in their order."""
    stamp: str | None = None
    """That of the LMDB's file."""
    made_of: MadeOf | None = None

    def text(self) -> str:
        """The text of the file."""
        return json_text({key: value for key, value in asdict(self).items() if value is not None})


@dataclass(frozen=True)
class Material:
    """What an LMDB is to be made of: pictures, or other ``lmdbs``."""

    sha256: Callable[[], str]
    stamp: str
    lmdbs: Sequence[Path] = ()

    def read(self) -> MadeOf:
        """Read all of it: for the note. The stamp is older, so what is changed meanwhile is noticed."""
        return MadeOf(self.sha256(), self.stamp, tuple(map(from_root, self.lmdbs)))


def read_note(lmdb: Path) -> Note:
    """What the note says: nothing if there is none, or a damaged one."""
    try:
        return checked(Note, json.loads((lmdb / NOTE).read_text()), NOTE)
    except (OSError, ValueError, RecursionError, ProgramError):
        return Note()


def write_note(lmdb: Path, note: Note) -> None:
    """Write the note of an LMDB."""
    write_text(lmdb / NOTE, note.text())


def stamp_of(*lmdbs: Path) -> str:
    """The stamp of the files of LMDBs."""
    return stamp(lmdb / "data.mdb" for lmdb in lmdbs)


def noted_contents(lmdb: Path) -> str | None:
    """The hash of an LMDB's records, from its note; None if that has none, or if the file is another one by now."""
    note = read_note(lmdb)
    return note.sha256 if note.stamp == stamp_of(lmdb) else None


def of_all(contents: Sequence[str]) -> str:
    """The hash of several LMDBs, by those of their records."""
    return str(Digest(("", one) for one in contents))


def check_up_to_date(lmdb: Path, remedy: str, contents_of: Callable[[Path], str | None] = noted_contents) -> None:
    """Raise ProgramError if an LMDB was made of others that hold other records by now.

    ``contents_of`` gives the hash of an LMDB's records (None: not known, so it counts as the same). What it was made of
    may have been removed or moved.
    """
    made_of = read_note(lmdb).made_of
    inputs = [ROOT / name for name in made_of.lmdbs] if made_of else []
    if not inputs or not all(map(is_lmdb, inputs)) or made_of.stamp == stamp_of(*inputs):
        return
    found = list(map(contents_of, inputs))
    if None not in found and of_all(found) != made_of.sha256:
        raise ProgramError(f"{lmdb}: it was made of other records than are now in {some(map(str, inputs))}; {remedy}")
