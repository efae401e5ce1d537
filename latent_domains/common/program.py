"""What every program shares: one clear line for bad input, exit codes, and the repository's root."""

import errno
import io
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import NoReturn

from latent_domains.common.streams import watched

ROOT = Path(__file__).resolve().parents[2]


def from_root(path: Path) -> str:
    """``path`` relative to the repository root where it lies below it, absolute elsewhere: as Caffe is told it."""
    absolute = path.resolve()
    return str(absolute.relative_to(ROOT) if absolute.is_relative_to(ROOT) else absolute)


class ProgramError(Exception):
    """Bad input or a failed step: the message names the file or option, what was found and what was expected."""


def run(main: Callable[[], int | None]) -> NoReturn:
    """Call ``main`` and leave with its ``exit_code``."""
    code = exit_code(main)
    if code == AS_BY_CTRL_C:
        os._exit(code)  # at once: Python's own end takes from under threads what they still compute with
    sys.exit(code)


def exit_code(main: Callable[[], int | None]) -> int:
    """Call ``main``; 1 after a ProgramError or OSError, 130 after Ctrl-C or ``kill``, with one line about it on stderr.

    Where there is not enough memory it is 1, too. (argparse itself leaves with 2 when the command line is wrong.)
    """
    if isinstance(sys.stdout, io.TextIOWrapper):  # what a terminal's encoding lacks ends no program
        sys.stdout.reconfigure(errors="backslashreplace")
    with watched() as stderr, _ended_as_by_ctrl_c() as signals:
        try:
            code = _ended(main)
            sys.stdout.flush()
            return code or 0
        except (KeyboardInterrupt, Exception) as error:
            signals.over = True
            said = _said_of(error, bool(signals.heard))
            if said is None:
                raise
            _clear_frames(error)  # progress bars in them end their lines
            # A bar that was interrupted while it began, or ended, does not.
            print("\n" * stderr.within_line + said, file=stderr)
            return AS_BY_CTRL_C if said == _INTERRUPTED else 1
        finally:
            signals.over = True
            _drop_what_nobody_takes()


_NEVER_FREED: list[BaseException] = []
"""What ended a program, and with it the frames of numba and llvmlite that it passed through.

If Ctrl-C came while a module of LLVM changed its owner, both would free it: a segmentation fault.
"""


def _clear_frames(error: BaseException) -> None:
    """Clear the frames of an error, as ``traceback.clear_frames`` does, but for those that hold objects of LLVM."""
    _NEVER_FREED.append(error)
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if frame.f_globals.get("__name__", "").partition(".")[0] not in ("numba", "llvmlite"):
            with suppress(RuntimeError):  # it is being executed
                frame.clear()


def _ended(main: Callable[[], int | None]) -> int | None:
    try:
        return main()
    except SystemExit:  # argparse's, after what --help prints
        sys.stdout.flush()
        raise


def say_in_a_line(kind: type[BaseException], error: BaseException, frames: TracebackType | None) -> None:
    """A ``sys.excepthook`` for a program that is not ours: what it lets through is told as :func:`exit_code` tells it.

    An error on the way out of an interruption is that interruption. A fault keeps its traceback. The exit code is
    Python's.
    """
    interrupted, each = False, error
    while each is not None:
        interrupted |= isinstance(each, KeyboardInterrupt)
        each = each.__context__
    said = _said_of(error, interrupted)
    if said is None:
        sys.__excepthook__(kind, error, frames)
    else:
        print(said, file=sys.stderr)


AS_BY_CTRL_C = 130
"""Exit code of a program that a signal ended: 128 + SIGINT, as shells say it."""

_INTERRUPTED = "interrupted"

_LONGEST = 4900
"""Characters of a message that one can read, whatever a file held that it shows: a line of 5,000 at most."""


def _said_of(error: BaseException, interrupted: bool) -> str | None:
    """The line about an error; None for a fault of ours, which ends in a traceback."""
    text = str(error)
    if isinstance(error, MemoryError):
        frames = [frame.f_locals.get("self") for frame, _ in traceback.walk_tb(error.__traceback__)]
        read = [str(file) for file in frames[-2:] if isinstance(file, Path)]  # Path.read_text and the like
        text = ": ".join([*read, "not enough memory", *filter(None, [text])])
    elif isinstance(error, UnicodeEncodeError):  # of a path, in what is UTF-8: a net, say
        text = f"found {error.object!r}, expected a name in UTF-8"
    elif isinstance(error, RuntimeError) and text == "can't start new thread":
        text += ": expected a higher limit of processes and threads (ulimit -u, or the container's)"
    elif isinstance(error, OSError) and error.filename and error.errno in (errno.EACCES, errno.EROFS):
        text += ": expected a file that one may read, or a folder that one may write; options choose others (--help)"
    elif isinstance(error, KeyboardInterrupt) or (interrupted and not _is_of_the_system(error)):
        return _INTERRUPTED  # some libraries make another exception of it, or find fault with what is right
    elif not isinstance(error, ProgramError | OSError) and "Symlink loop" not in text:  # of Path.resolve
        return None
    return "error: " + (text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text)} characters)")


def _is_of_the_system(error: BaseException) -> bool:
    """A full disk, say; a bad descriptor is one that an interrupted library (``shutil.rmtree``) closes twice."""
    return isinstance(error, OSError) and error.errno != errno.EBADF


def _drop_what_nobody_takes() -> None:
    """What is left to be written, and cannot be, goes nowhere: Python would try again, and end in 120."""
    for number, stream in ((1, sys.stdout), (2, sys.stderr)):
        try:
            stream.flush()
        except OSError:
            with Path(os.devnull).open("w") as nowhere:
                os.dup2(nowhere.fileno(), number)


_AGAIN = 0.05
"""Seconds after which an interruption that was raised in vain is raised again, by an alarm."""


class _Signals:
    """Signals that came: ``heard``. Once it is ``over`` with the program, further ones change nothing."""

    def __init__(self) -> None:
        self.heard: list[int] = []
        self.over = False
        self.hook_before = sys.unraisablehook

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        """Raise KeyboardInterrupt, as a handler; or, where it would be lost, do so soon."""
        self.heard.append(number)
        if self.over:
            return
        while frame is not None:
            if frame.f_code is _Signals.lost.__code__:
                signal.setitimer(signal.ITIMER_REAL, _AGAIN)
                return
            frame = frame.f_back
        raise KeyboardInterrupt

    def lost(self, unraisable: "sys.UnraisableHookArgs") -> None:
        """Raise again what was raised where nothing can be, as in what C code calls back: a ``sys.unraisablehook``."""
        if not self.heard:
            self.hook_before(unraisable)
        elif unraisable.exc_type is KeyboardInterrupt:
            signal.setitimer(signal.ITIMER_REAL, _AGAIN)
        # Else an object that was interrupted while it was made cannot be closed: there is nothing to tell.


@contextmanager
def _ended_as_by_ctrl_c() -> Iterator[_Signals]:
    """``kill``, ``docker stop`` and a closed terminal raise KeyboardInterrupt too, so that nothing half-made is left.

    A signal that the caller ignores (``nohup``) stays ignored.
    """
    signals = _Signals()
    if threading.current_thread() is not threading.main_thread():
        yield signals
        return
    sys.unraisablehook = signals.lost
    numbers = (signal.SIGALRM, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        for number, handler in before.items():
            if handler in (signal.SIG_DFL, signal.default_int_handler):
                signal.signal(number, signals.interrupt)
        yield signals
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        sys.unraisablehook = signals.hook_before
        for number, handler in before.items():
            signal.signal(number, handler)
