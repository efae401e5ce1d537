"""The options of tools.adapt, kept beside its results: the same ones go on, others are refused."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from latent_domains.common.files import json_text, read_json, write_text
from latent_domains.common.program import ProgramError

OTHERWISE = "choose another --out, or pass --force to begin anew"
"""What to do if a folder was begun otherwise."""


def keep(file: Path, settings: Mapping[str, Any], *, begun: bool, by_default: Collection[str] = ()) -> None:
    """Write the settings by their options' names or, if training has ``begun``, compare them with the file's.

    Two kinds of options are not compared here, but later by the run's own description: those that the file lacks,
    because they are newer, and those ``by_default`` that are None in it. Raises ProgramError naming what differs, or if
    the folder holds other files.
    """
    if not file.exists() and file.parent.is_dir() and any(file.parent.iterdir()):
        raise ProgramError(f"{file.parent}: holds other files and no {file.name}, expected a new or empty folder")
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
