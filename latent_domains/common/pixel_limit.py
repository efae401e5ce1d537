"""How large a picture may be. OpenCV reads the limit when it is loaded, and keeps to it by a picture's header alone."""

import argparse
import os
import re
import sys
from typing import Any

MEGAPIXELS = 100
"""Of a picture at most, unless an option or the user's own VARIABLE says otherwise."""

VARIABLE = "OPENCV_IO_MAX_IMAGE_PIXELS"
"""Environment variable of OpenCV's, which child processes inherit."""

_MOST = 10**6
"""That OpenCV can multiply."""

_EACH = 10**6
_BYTES = 8
"""Of a pixel in a file at most: four channels of 16 bits."""


def set_default() -> None:
    """To be called before OpenCV is imported, which ends a process whose VARIABLE it cannot read."""
    given = os.environ.setdefault(VARIABLE, str(MEGAPIXELS * _EACH))
    if not re.fullmatch("[0-9]{1,12}", given):
        sys.exit(f"error: environment variable {VARIABLE}: found {given!r}, expected a number of pixels below 10^12")
    os.environ.setdefault("OPENCV_LOG_LEVEL", "SILENT")  # what it says of a picture names no file


def megapixels() -> float:
    """The limit of this process."""
    return int(os.environ.get(VARIABLE, MEGAPIXELS * _EACH)) / _EACH


def most_bytes() -> int:
    """Of a file with a picture within the limit."""
    return int(_BYTES * _EACH * megapixels()) + _EACH


class StartAnew(argparse.Action):
    """The option for another limit: the program is started again with it, since OpenCV is loaded already."""

    def __call__(self, parser: object, namespace: object, values: Any, option: object = None) -> None:
        """Replace this process, unless it has the limit."""
        if values > _MOST:
            raise argparse.ArgumentError(self, f"got {values}, expected at most {_MOST}")
        wanted = str(values * _EACH)
        if os.environ.get(VARIABLE) != wanted:
            os.environ[VARIABLE] = wanted
            os.execv(sys.executable, sys.orig_argv)  # noqa: S606
