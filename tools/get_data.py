"""Build the LMDBs of the digits experiment or of the demo.

    python -m tools.get_data digits     MNIST, MNIST-M, USPS: downloaded, or from a mirror folder
    python -m tools.get_data demo       rendered and handwritten digits from the installed packages, no download

What stands already is not built again. A part that was made with another seed is an error, never reused.
"""

import argparse
import os
from pathlib import Path

from tools.data import demo, digits
from tools.data.parts import build_missing
from tools.program import ProgramError, run


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tools.get_data", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--out", type=Path, default=Path("data"), metavar="DIR", help="data folder (default: data)")
    common.add_argument("--seed", type=_seed, default=0, help="of all that is drawn at random (default: 0)")
    common.add_argument("--force", action="store_true", help="replace parts that were made with other settings")
    which = parser.add_subparsers(dest="which", required=True, metavar="{digits,demo}")
    digits_parser = which.add_parser(
        "digits", parents=[common], help="MNIST, MNIST-M and USPS", description="Build OUT/digits: six LMDBs."
    )
    digits_parser.add_argument(
        "--mirror",
        type=Path,
        default=os.environ.get("DATA_MIRROR") or None,
        metavar="DIR",
        help="read mnist/*.gz, usps/zip.*.gz and bsds500/*.jpg here instead of downloading them to OUT/downloads "
        "(default: environment variable DATA_MIRROR)",
    )
    which.add_parser(
        "demo", parents=[common], help="the demo's three domains", description="Build OUT/demo: three LMDBs."
    )
    return parser.parse_args()


def _seed(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{value}, expected 0 or more")
    return value


def main() -> None:
    """Build what is missing of the set named on the command line."""
    arguments = _arguments()
    if arguments.which == "digits":
        if arguments.mirror is not None and not arguments.mirror.is_dir():
            raise ProgramError(f"mirror {arguments.mirror}: no such folder")
        build_missing(digits.parts(arguments.out, arguments.seed, arguments.mirror), force=arguments.force)
    else:
        build_missing(demo.parts(arguments.out, arguments.seed), force=arguments.force)


if __name__ == "__main__":
    run(main)
