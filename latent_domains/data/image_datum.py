"""Image file → array, and its Datum bit for bit as ``convert_imageset`` makes it, in one or several threads.

``tools.build_lmdb`` lists the four exceptions.
"""

import stat
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from caffe.proto.caffe_pb2 import Datum
from numpy.typing import NDArray
from tqdm import tqdm

from latent_domains.common.arguments import BACKGROUND
from latent_domains.common.in_threads import in_threads
from latent_domains.common.program import ProgramError
from latent_domains.common.start import PIXEL_LIMIT, most_bytes, most_pixels
from latent_domains.common.wording import by, count_of
from latent_domains.data.image_list import Entry, printable
from latent_domains.data.lmdb_io import encoded_datum, image_datum
from latent_domains.data.pixels import BEGINNINGS, check_whole, decoded, read_pixels
from latent_domains.data.preprocessing import USUAL, Reading


@dataclass(frozen=True)
class Format:
    """How an image is stored."""

    resize: tuple[int, int] | None = None
    """Height and width in pixels, or None: not resized."""
    gray: bool = False
    encoded: str | None = None
    """``jpg`` or ``png``: stored as such a file with the same pixels; None: raw pixels."""
    reading: Reading = USUAL


@dataclass(frozen=True, eq=False)
class Made:
    """An image as an array or as an encoded file; or why there is none."""

    image: NDArray[np.uint8] | None = None
    """H×W×3 (B, G, R) or H×W."""
    encoded: bytes = b""
    failure: str | None = None
    transparent: bool = False
    several: bool = False
    """``transparent``: whether a part shows the background; ``several``: whether the file has more pages."""

    @property
    def planes(self) -> NDArray[np.uint8]:
        """The image as C×H×W."""
        return np.stack(cv2.split(self.image))

    def datum(self, label: int) -> Datum:
        """Return the Datum that an LMDB stores."""
        return encoded_datum(self.encoded, label) if self.image is None else image_datum(self.image, label)


def read_image(file: Path, form: Format) -> Made:
    """Read and resize (bilinear) one image; encode it if ``form`` says so."""
    try:
        return _made(file_contents(file), form)
    except OSError as error:
        return Made(failure=error.strerror or str(error))
    except ValueError as error:
        return Made(failure=str(error))
    except cv2.error as error:
        if "MAX_IMAGE_PIXELS" in error.err:
            return Made(failure=f"more than {most_pixels()} pixels ({PIXEL_LIMIT} allows more)")
        return Made(failure=f"OpenCV refuses it: {error.err}")


def _made(data: bytes, form: Format) -> Made:
    """Return the image in a file's contents. Raises ValueError or cv2.error if they are not a whole image."""
    if form.encoded and form.resize is None and not form.gray and _is_plain(data, form.encoded):
        return Made(encoded=data)  # it is what is asked for: no second loss
    pixels = read_pixels(data, form.reading, gray=form.gray)
    image, how = pixels.image, {"transparent": pixels.transparent, "several": pixels.several}
    if form.resize is not None:
        height, width = form.resize
        image = cv2.resize(image, (width, height))
    if form.encoded is None:
        return Made(image, **how)
    fits, encoded = cv2.imencode("." + form.encoded, image)
    if not fits:
        raise ValueError(f"too large for {form.encoded}: {by(image.shape[:2])} pixels")
    return Made(encoded=encoded.tobytes(), **how)


def file_contents(file: Path, most: int = -1) -> bytes:
    """Read a file, or its first ``most`` bytes.

    Raises OSError if it is not a regular file, which may have no end, or if it is too large for a picture.
    """
    status = file.stat()
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        raise OSError("a FIFO, a device or a socket, expected a regular file")
    if status.st_size > most_bytes():
        raise OSError(f"{status.st_size} bytes, more than a picture of {most_pixels()} pixels has")
    with file.open("rb") as stream:
        return stream.read(most)


def _is_plain(data: bytes, form: str) -> bool:
    """Say whether a file has the format ``form`` and Caffe, which decodes it as it is, gets upright B, G, R.

    Raises ValueError or cv2.error as :func:`read_pixels` does.
    """
    if not data.startswith(BEGINNINGS[form]):
        return False
    check_whole(data)
    image = decoded(data, cv2.IMREAD_UNCHANGED)
    if image is None or image.dtype != np.uint8 or image.shape[2:] != (3,):
        return False
    may_be_turned = b"Exif" in data or b"eXIf" in data  # by its orientation, which IMREAD_COLOR respects
    return not may_be_turned or np.array_equal(image, decoded(data, cv2.IMREAD_COLOR))


def make_readable(
    entries: Sequence[Entry], form: Format, jobs: int, *, skip: bool, remedy: str = ""
) -> Iterator[tuple[Entry, Made]]:
    """Yield each entry that can be read, in order, with its image; ``jobs`` threads read them.

    An unreadable one is named on stderr and skipped if ``skip``; else it is an error that ends in ``remedy``. Notes on
    stderr count pictures with transparent parts, and files with several pages.
    """
    cv2.setNumThreads(1)  # ours are the parallelism: OpenCV works outside the interpreter's lock
    transparent, several = _Noted(), _Noted()
    made_in_order = in_threads(lambda entry: read_image(entry.file, form), entries, jobs)
    for entry, made in zip(entries, made_in_order, strict=True):
        if made.failure is None:
            transparent.add(entry, made.transparent)
            several.add(entry, made.several)
            yield entry, made
        elif skip:
            tqdm.write(f"left out {printable(entry.file)}: {made.failure}", file=sys.stderr)
        else:
            raise ProgramError(f"{entry.file}: {made.failure}{remedy}")
    transparent.say(f"transparent parts become {form.reading.words[BACKGROUND]} ({BACKGROUND})")
    several.say("the first of several pages is taken")


@dataclass
class _Noted:
    """Pictures that a note describes."""

    number: int = 0
    first: Entry | None = None

    def add(self, entry: Entry, is_one: bool) -> None:
        self.number += is_one
        self.first = self.first or (entry if is_one else None)

    def say(self, what: str) -> None:
        if self.first:
            number, file = count_of(self.number, "picture"), printable(self.first.file)
            tqdm.write(f"note: {number}, such as {file}: {what}", file=sys.stderr)
