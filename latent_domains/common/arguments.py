"""Command lines: the parser of a program, and types of values with clear errors."""

import math
import os
import re
import threading
from argparse import ArgumentParser, ArgumentTypeError, RawDescriptionHelpFormatter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from latent_domains.common.program import ROOT


def program_parser(name: str, description: str) -> ArgumentParser:
    """Return the parser of ``python -m NAME``.

    Its help shows ``description``, the program's docstring, line by line.
    """
    return _Parser(prog=f"python -m {name}", description=description, formatter_class=RawDescriptionHelpFormatter)


class _Parser(ArgumentParser):
    """A parser, also for subcommands, that reads ``type=Path`` with :func:`path`."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.register("type", Path, path)


def path(text: str) -> Path:
    """Read a path. Expand ~ to the home folder, also in --out=~/kinds, where the shell does not.

    Refuses an empty path, which comes from an unset shell variable: pathlib would read it as the current folder.
    """
    if not text:
        raise ArgumentTypeError("got '', expected a path (. is this folder)")
    try:
        return Path(text).expanduser() if text.startswith("~") else Path(text)
    except RuntimeError as error:
        raise ArgumentTypeError(f"got {text!r}, expected the home folder of a user who is known here") from error


def add_image_options(parser: ArgumentParser) -> None:
    """Add the options of programs that read many images."""
    cores = len(os.sched_getaffinity(0))
    parser.add_argument("--jobs", type=positive, default=cores, help="threads that read images (default: one per core)")


BACKGROUND, RANGE = "--background", "--range"


def add_reading_options(parser: ArgumentParser, otherwise: str = "") -> None:
    """Add the options of programs that read users' pictures. Each is a field of a Reading; its default is None.

    ``otherwise`` describes the default in the help, if it is not the usual one.
    """
    parser.add_argument(
        BACKGROUND,
        type=colour,
        metavar="COLOUR",
        help=f"colour behind transparent parts of pictures: white, black or #RRGGBB (default: {otherwise or 'white'})",
    )
    parser.add_argument(
        RANGE,
        type=ends,
        metavar="LOW:HIGH",
        help="values that become black and white, in PNG and TIFF of more than 8 bits "
        f"(default: {otherwise or 'all of 16 bits, if a picture uses them'})",
    )


def colour(text: str) -> tuple[int, int, int]:
    """Read a colour; return B, G, R."""
    text = {"white": "#ffffff", "black": "#000000"}.get(text, text)
    if not re.fullmatch("#[0-9A-Fa-f]{6}", text):
        raise ArgumentTypeError(f"got {text!r}, expected white, black or #RRGGBB in hexadecimal digits")
    red, green, blue = bytes.fromhex(text[1:])
    return blue, green, red


def ends(text: str) -> tuple[float, float]:
    """Read a range of numbers, such as 0:4095."""
    expected = "two numbers LOW:HIGH, the first one smaller, such as 0:4095"
    low, _, high = text.partition(":")
    found = tuple(real(part, lambda value: abs(value) <= 1e30, expected) for part in (low, high))
    if not found[0] < found[1]:
        raise ArgumentTypeError(f"got {text!r}, expected {expected}")
    return found


FOLDERS_ARE_CLASSES = "--folders-are-classes"


def add_tree_option(parser: ArgumentParser) -> None:
    """Add the option of programs that read class folders."""
    parser.add_argument(
        FOLDERS_ARE_CLASSES, action="store_true", help="use the folders as classes even if they look like domains"
    )


def add_data_option(parser: ArgumentParser, what: str = "folder of the LMDBs") -> None:
    """Add the option of programs that read the data folder."""
    parser.add_argument("--data", type=Path, default=ROOT / "data", metavar="DIR", help=f"{what} (default: data)")


def positive(text: str) -> int:
    """Return a whole number of at least 1."""
    return _whole(text, 1)


def natural(text: str) -> int:
    """Return a whole number of at least 0."""
    return _whole(text, 0)


_MOST_THREADS = 1024
"""More than any machine has cores. With far too many threads OpenMP ends a process without a message."""


def threads(text: str) -> int:
    """Return a number of threads of one process."""
    return _whole(text, 1, _MOST_THREADS)


def percentages(text: str) -> tuple[int, ...]:
    """Read whole numbers of at least 1, such as 80:20."""
    return tuple(positive(part) for part in text.split(":"))


def seconds(text: str) -> float:
    """Read a time above 0, no longer than Python can wait."""
    most = threading.TIMEOUT_MAX
    return real(text, lambda value: 0 < value <= most, f"a number of seconds above 0, at most {most:.0f}")


def number(text: str) -> float:
    """Return a number in the range of single precision."""
    return real(text, lambda value: abs(value) <= 1e30, "a number from -1e30 to 1e30")


def real(text: str, accepts: Callable[[float], bool], expected: str) -> float:
    """Read a number that ``accepts`` returns True for. A text that is not a number counts as NaN."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not accepts(value):
        raise ArgumentTypeError(f"got {text!r}, expected {expected}")
    return value


def _whole(text: str, least: int, most: int | None = None) -> int:
    value = int(text) if re.fullmatch("[0-9]{1,18}", text) else -1
    if not least <= value <= (most or value):
        bound = f"at most {most}" if most else "18 digits at most"
        raise ArgumentTypeError(f"got {text!r}, expected a whole number of at least {least}, {bound}")
    return value
