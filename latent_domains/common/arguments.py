"""Command lines: parsers of programs, and values with a message that says what is wrong with them."""

import os
import threading
from argparse import ArgumentParser, ArgumentTypeError, RawDescriptionHelpFormatter
from pathlib import Path

from latent_domains.common import pixel_limit


def program_parser(name: str, description: str) -> ArgumentParser:
    """The parser of ``python -m NAME``, which shows a program's docstring as it is written."""
    return ArgumentParser(
        prog=f"python -m {name}", description=description, formatter_class=RawDescriptionHelpFormatter
    )


def add_image_options(parser: ArgumentParser) -> None:
    """The options of every program that reads many images."""
    cores = len(os.sched_getaffinity(0))
    parser.add_argument("--jobs", type=positive, default=cores, help="threads that read images (default: one a core)")
    parser.add_argument(
        "--max-megapixels",
        type=positive,
        action=pixel_limit.StartAnew,
        metavar="N",
        help=f"a larger image is one that cannot be read (default: {pixel_limit.MEGAPIXELS})",
    )


def add_mirror_option(parser: ArgumentParser, files: str) -> None:
    """The option of programs that read ``files`` of data sets, which they download where it is not given."""
    default = os.environ.get("DATA_MIRROR") or None
    help = f"read {files} here instead of downloading (default: environment variable DATA_MIRROR)"
    parser.add_argument("--mirror", type=Path, default=default, metavar="DIR", help=help)


def positive(text: str) -> int:
    """A whole number of at least 1."""
    return _whole(text, 1)


def natural(text: str) -> int:
    """A whole number of at least 0."""
    return _whole(text, 0)


def percentages(text: str) -> tuple[int, ...]:
    """Whole numbers of at least 1: 80:20."""
    return tuple(positive(part) for part in text.split(":"))


def seconds(text: str) -> float:
    """A time above 0 that one can wait."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= threading.TIMEOUT_MAX:
        most = f"at most {threading.TIMEOUT_MAX:.0f}"
        raise ArgumentTypeError(f"got {text!r}, expected a number of seconds above 0, {most}")
    return value


def _whole(text: str, least: int) -> int:
    if not text.isdecimal() or int(text) < least:
        raise ArgumentTypeError(f"got {text!r}, expected a whole number of at least {least}")
    return int(text)
