"""What every program shares: one clear line for bad input, exit codes, and the repository's root."""

import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def from_root(path: Path) -> str:
    """``path`` relative to the repository root where it lies below it, absolute elsewhere: as Caffe is told it."""
    absolute = path.resolve()
    return str(absolute.relative_to(ROOT) if absolute.is_relative_to(ROOT) else absolute)


class ProgramError(Exception):
    """Bad input or a failed step: the message names the file or option, what was found and what was expected."""


def run(main: Callable[[], int | None]) -> None:
    """Call ``main`` and leave with its exit code: 1 after a ProgramError or OSError, 130 after Ctrl-C.

    (argparse itself leaves with 2 when the command line is wrong.)
    """
    try:
        sys.exit(main() or 0)
    except (ProgramError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
