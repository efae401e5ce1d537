"""How a program begins: prepare the environment before other imports, then import the program and call its ``main``."""

import os
import re
import signal
import sys
from importlib import import_module
from importlib.util import find_spec
from typing import NoReturn


def start(program: str) -> NoReturn:
    """Import the module of a program and call its ``main``. The file itself calls this first, as ``__main__``.

    Ends with one line on stderr if Caffe or packages are missing, if packages belong to another Python, or if Python
    drops docstrings.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends imports without a word: nothing has begun
    python = f"{sys.executable}, Python {sys.version_info.major}.{sys.version_info.minor},"
    remedy = "call '. ./env.sh' in this shell first; if you did, call make setup"
    if find_spec("caffe") is None:
        sys.exit(f"error: {python} finds no caffe: {remedy}")
    if sys.version_info < (3, 11):  # noqa: UP036 - PATH may name any
        sys.exit(f"error: {python} is too old, expected 3.11 or newer: {remedy}")
    if sys.flags.optimize > 1:
        sys.exit("error: python -OO, or PYTHONOPTIMIZE=2: programs and libraries here need their docstrings")
    _open_closed_streams()
    prepare_libraries()
    try:
        from latent_domains.common.program import run

        main = import_module(program).main
    except ImportError as error:
        if error.name and error.name.partition(".")[0] in ("bench", "caffe_layers", "latent_domains", "tools"):
            raise
        cause: BaseException = error
        while cause.__cause__:  # NumPy's own words are a page, and do not know env.sh
            cause = cause.__cause__
        sys.exit(f"error: {python} cannot import what programs need ({' '.join(str(cause).split())}): {remedy}")
    run(main)


def _open_closed_streams() -> None:
    """Open each standard stream that is closed.

    Else the next file gets its number, and libraries print into that file.
    """
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w"))  # noqa: PTH123, SIM115


def prepare_libraries() -> None:
    """Set the environment of Caffe, matplotlib, ONNX Runtime and OpenCV. They read it when they are imported."""
    # In our own processes Caffe's log of every layer would bury what a program says. caffe_process gives the caffe
    # binary, whose log is kept, the full one.
    os.environ.setdefault("GLOG_minloglevel", "2")
    # A notebook's backend is not installed here, and figures should not depend on the user's own settings.
    os.environ["MPLBACKEND"] = "agg"
    os.environ["MATPLOTLIBRC"] = os.devnull
    # No telemetry, and no identifier and no database for it in the cache.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    limit_pixels()


PIXEL_LIMIT = "OPENCV_IO_MAX_IMAGE_PIXELS"
"""OpenCV's environment variable for another limit; child processes inherit it."""

_MOST_PIXELS = 100 * 10**6
"""The limit, unless PIXEL_LIMIT says otherwise."""

_BYTES = 8
"""The most that a pixel takes in a file: four channels of 16 bits."""


def limit_pixels() -> None:
    """Set the largest size of a picture, before importing OpenCV: it ends a process if it cannot read PIXEL_LIMIT."""
    given = os.environ.setdefault(PIXEL_LIMIT, str(_MOST_PIXELS))
    if not re.fullmatch("[0-9]{1,12}", given):
        sys.exit(f"error: environment variable {PIXEL_LIMIT}: found {given!r}, expected a number of pixels below 10^12")
    os.environ.setdefault("OPENCV_LOG_LEVEL", "SILENT")  # its messages about a picture do not name the file


def most_pixels() -> int:
    """Return the limit of this process."""
    return int(os.environ.get(PIXEL_LIMIT, _MOST_PIXELS))


def most_bytes() -> int:
    """Return the size of the largest file that may hold a picture within the limit."""
    return _BYTES * most_pixels() + 10**6
