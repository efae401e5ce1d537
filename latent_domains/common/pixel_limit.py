"""The largest size of a picture. OpenCV reads this limit when it is loaded, and checks a picture's header by it."""

import os
import re
import sys

VARIABLE = "OPENCV_IO_MAX_IMAGE_PIXELS"
"""OpenCV's environment variable for another limit; child processes inherit it."""

_MOST_PIXELS = 100 * 10**6
"""The limit, unless VARIABLE says otherwise."""

_BYTES = 8
"""The most that a pixel takes in a file: four channels of 16 bits."""


def set_default() -> None:
    """Set the limit. Call this before importing OpenCV, which ends a process if it cannot read VARIABLE."""
    given = os.environ.setdefault(VARIABLE, str(_MOST_PIXELS))
    if not re.fullmatch("[0-9]{1,12}", given):
        sys.exit(f"error: environment variable {VARIABLE}: found {given!r}, expected a number of pixels below 10^12")
    os.environ.setdefault("OPENCV_LOG_LEVEL", "SILENT")  # its messages about a picture do not name the file


def most_pixels() -> int:
    """The limit of this process."""
    return int(os.environ.get(VARIABLE, _MOST_PIXELS))


def most_bytes() -> int:
    """The size of the largest file that may hold a picture within the limit."""
    return _BYTES * most_pixels() + 10**6
