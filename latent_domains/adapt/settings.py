"""The options of tools.adapt, kept beside its results: the same ones go on, others are refused."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from latent_domains.common.files import json_text, read_json, write_text
from latent_domains.common.program import ProgramError
from latent_domains.runs.lock import LOCK, locked

OTHERWISE = "choose another --out, or pass --force to begin anew"
"""What to do if a folder was begun otherwise."""


@contextmanager
def held(file: Path) -> Iterator[None]:
    """Make the folder of the settings ``file``, if it is missing, and keep other calls out of it.

    Raises ProgramError if a file is in its place, if it holds other files and no settings, or if another call works in
    it.
    """
    folder = file.parent
    if folder.exists() and not folder.is_dir():
        raise ProgramError(f"{folder}: a file is there, expected a new or empty folder")
    if not file.exists() and folder.is_dir() and not {each.name for each in folder.iterdir()} <= {LOCK}:
        raise ProgramError(f"{folder}: holds other files and no {file.name}, expected a new or empty folder")
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        yield


def keep(file: Path, settings: Mapping[str, Any], *, begun: bool, by_default: Collection[str] = ()) -> None:
    """Write the settings by their options' names or, if training has ``begun``, compare them with the file's.

    Two kinds of options are not compared: those that the file lacks, because they are newer, and those ``by_default``
    that are None in it. The run's own description is compared later. Raises ProgramError naming what differs.
    """
    if not begun or not file.exists():
        write_text(file, json_text(dict(settings)))
        return
    try:
        there = read_json(file)
    except ProgramError as error:
        raise ProgramError(f"{error} (pass --force to begin anew)") from error
    said = [key for key in settings if key in there and not (key in by_default and there[key] is None)]
    different = [key for key in said if settings[key] != there[key]]
    if different:
        words = "; ".join(f"{key} was {_word(there[key])}, is {_word(settings[key])}" for key in different)
        raise ProgramError(f"{file.parent} was begun with other options: {words} ({OTHERWISE})")


def _word(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(map(str, value))
    return "not given" if value is None else str(value)
