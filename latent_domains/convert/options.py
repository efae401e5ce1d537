"""The options that converters share."""

import argparse
from dataclasses import dataclass
from pathlib import Path

from latent_domains.common.arguments import natural, number
from latent_domains.data.preprocessing import Transform
from latent_domains.experiment.experiment import make_experiment
from latent_domains.models.compare import AS_STORED, TOLERANCE


@dataclass(frozen=True)
class ConverterOptions:
    """How a converter checks its result, and whether it may replace files.

    It compares on random inputs and, if it is given, on the pictures of the folder ``images``.
    """

    verify: bool = True
    images: Path | None = None
    force: bool = False


def add_converter_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of :class:`ConverterOptions`."""
    parser.add_argument(
        "--verify",
        action=argparse.BooleanOptionalAction,
        default=True,
        help=f"run both models on the same inputs, and write nothing if a blob differs by more than {TOLERANCE:g} of "
        "a blob's largest value (default: yes)",
    )
    parser.add_argument("--images", type=Path, metavar="DIR", help="also verify on the images in this folder")
    parser.add_argument("--force", action="store_true", help="replace existing output files")


def converter_options(options: argparse.Namespace) -> ConverterOptions:
    """Return the values of :func:`add_converter_options`' options."""
    return ConverterOptions(options.verify, options.images, options.force)


def add_domain_options(parser: argparse.ArgumentParser) -> None:
    """Add options for the numbers of domains that weights of mDA nets are written for."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--num-domains",
        type=_domains,
        action="append",
        metavar="D",
        help="write weights for mDA nets with D domains, sources and targets together; may be repeated "
        f"(default: {_default_domains()}, as for PACS)",
    )
    group.add_argument("--no-mda", action="store_true", help="write no weights for mDA nets")


def num_domains(options: argparse.Namespace) -> list[int]:
    """Return the numbers from :func:`add_domain_options`' options."""
    return [] if options.no_mda else options.num_domains or [_default_domains()]


def _default_domains() -> int:
    return make_experiment("pacs", "mda").num_domains


def _domains(text: str) -> int:
    value = natural(text)
    if value < 2:
        raise argparse.ArgumentTypeError(f"got {value}, expected at least 2 (a source domain and the target)")
    return value


def add_pixel_options(parser: argparse.ArgumentParser, mean: float, condition: str = "") -> None:
    """Add ``--mean`` and ``--scale``, for nets whose input is unknown. Each is None if it is not given.

    ``mean`` is the default; ``condition`` says when the options may be given.
    """
    parser.add_argument(
        "--mean",
        type=number,
        nargs="+",
        metavar="M",
        help=f"{condition}after OUT: mean to subtract from the pixels, one number or B G R (default: {mean:g})",
    )
    parser.add_argument("--scale", type=number, help=f"{condition}factor for the pixels after that (default: 1)")


def pixel_options(options: argparse.Namespace) -> Transform:
    """Return the transformation from :func:`add_pixel_options`' options."""
    return Transform(tuple(options.mean or ()), 1.0 if options.scale is None else options.scale)


def pixels_hint(transform: Transform, default: float) -> str:
    """Return a hint for a message about a difference: the options may help, unless they were given."""
    if transform != AS_STORED:
        return ""
    less = f" less {default:g}" if default else ""
    return f": compared on pixels from 0 to 255{less}, if the net takes others give --mean and --scale"
