"""Shared by every program: one clear line for bad input, exit codes, and the repository's root."""

import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NoReturn

from latent_domains.common.wording import harmless

ROOT = Path(__file__).resolve().parents[2]


def from_root(path: Path) -> str:
    """Return ``path`` for Caffe: relative to the repository root if it lies below it, else absolute."""
    absolute = path.resolve()
    return str(absolute.relative_to(ROOT) if absolute.is_relative_to(ROOT) else absolute)


class ProgramError(Exception):
    """Wrong input or a failed step: the message names the file or option, what was found and what was expected.

    Every function of the library raises it, with one clear message, for input that its user can correct (a missing,
    damaged or unfit file, option or value), and leaves nothing half-written. So docstrings name an error only where a
    caller would not expect it.
    """


INTERRUPTED = 130
"""Exit code of a program that a signal ended: 128 + SIGINT, as shells say it."""

_LONGEST = 4900
"""The most characters of a message: it may quote a file of any size."""


def run(main: Callable[[], int | None]) -> NoReturn:
    """Call ``main`` and leave with its ``exit_code``."""
    code = exit_code(main)
    if code == INTERRUPTED:
        os._exit(code)  # at once: a regular end of Python would free memory that threads still use
    sys.exit(code)


def exit_code(main: Callable[[], int | None]) -> int:
    """Call ``main`` and return its exit code; after an error print one line about it on stderr.

    The code is 1 after a ProgramError or OSError, or if memory is short; 130 after Ctrl-C or ``kill``. (argparse ends
    the program with 2 if the command line is wrong.)
    """
    if isinstance(sys.stdout, io.TextIOWrapper):  # no error for characters that the terminal's encoding lacks
        sys.stdout.reconfigure(errors="backslashreplace")
    with _signals_as_ctrl_c() as signals:
        try:
            try:
                code = main() or 0
            except SystemExit:  # after --help
                _flush_stdout()
                raise
            _flush_stdout()
            return code
        except (KeyboardInterrupt, Exception) as error:
            for number in signals:
                signal.signal(number, signal.SIG_IGN)  # nothing may be interrupted any more
            line = _line_about(error)
            if line is None:
                raise
            _end_progress_bars()
            print(line, file=sys.stderr)
            if not _is_interruption(error):
                return 1
            _NEVER_FREED.append(error)
            return INTERRUPTED
        finally:
            _discard_unwritable_output()


def _line_about(error: BaseException) -> str | None:
    """Return the line about an error; None for a fault in our code, which should show a traceback."""
    if _is_interruption(error):
        return "interrupted"
    text = str(error)
    if isinstance(error, MemoryError):
        text = f"not enough memory: {text}" if text else "not enough memory"
    elif isinstance(error, UnicodeEncodeError):  # of a path that goes into a UTF-8 file, such as a net
        text = f"found {error.object!r}, expected a name in UTF-8"
    elif not isinstance(error, ProgramError | OSError) and "Symlink loop" not in text:  # that of Path.resolve
        return None
    said = harmless(text)  # which may be four times as long
    return "error: " + (said if len(said) <= _LONGEST else f"{said[:_LONGEST]}… ({len(text)} characters)")


def _is_interruption(error: BaseException | None) -> bool:
    """Say whether an error comes from Ctrl-C: some libraries turn it into another error, or fail while they end."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


_NEVER_FREED: list[BaseException] = []
"""Interruptions. Their frames may keep an LLVM module that was being linked; numba and llvmlite would both free it."""


def _end_progress_bars() -> None:
    """End the lines of progress bars, so that the error comes below them."""
    if tqdm := sys.modules.get("tqdm"):
        for bar in list(getattr(tqdm.tqdm, "_instances", ())):
            bar.close()


def _flush_stdout() -> None:
    """Write what is left on stdout; an error names the stream."""
    try:
        sys.stdout.flush()
    except OSError as error:
        error.filename = "stdout"
        raise


def _discard_unwritable_output() -> None:
    """Discard output that cannot be written. Python would try again when it ends, and exit with 120."""
    for number, stream in ((1, sys.stdout), (2, sys.stderr)):
        try:
            stream.flush()
        except OSError:
            with Path(os.devnull).open("w") as nowhere:
                os.dup2(nowhere.fileno(), number)


@contextmanager
def _signals_as_ctrl_c() -> Iterator[tuple[int, ...]]:
    """Make ``kill``, ``docker stop`` and a closed terminal raise KeyboardInterrupt, so that nothing is left half-made.

    Yields the signals that do so. A signal that the caller ignores (``nohup``) stays ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield ()
        return
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    heard = {number: old for number, old in before.items() if old in (signal.SIG_DFL, signal.default_int_handler)}
    try:
        for number in heard:
            signal.signal(number, _interrupt)
        yield tuple(heard)
    finally:
        for number, handler in heard.items():
            signal.signal(number, handler)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
