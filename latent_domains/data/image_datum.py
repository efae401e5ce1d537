"""Image file → serialised Datum, bit for bit as ``convert_imageset`` makes it, in one or several threads.

``tools.build_lmdb`` names the three exceptions.
"""

import re
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

from latent_domains.common import pixel_limit
from latent_domains.common.in_threads import in_threads
from latent_domains.common.program import ProgramError
from latent_domains.common.wording import by
from latent_domains.data.image_list import Entry, printable
from latent_domains.data.lmdb_io import decoded, encoded_datum, image_datum


@dataclass(frozen=True)
class Format:
    """How an image is stored."""

    resize: tuple[int, int] | None = None
    """Height and width in pixels, or None: as it is."""
    gray: bool = False
    encoded: str | None = None
    """``jpg`` or ``png``: stored as such a file, which holds what raw pixels would; None: raw pixels."""


@dataclass(frozen=True)
class Made:
    """A serialised Datum, or why there is none."""

    datum: bytes = b""
    failure: str | None = None


def make(file: Path, label: int, form: Format) -> Made:
    """Read, resize (bilinear) and store one image.

    Some versions of OpenCV fill what a JPEG that was cut short lacks with gray and say nothing; here it is a failure
    like any other.
    """
    try:
        return Made(_datum(file_contents(file), label, form).SerializeToString())
    except OSError as error:
        return Made(failure=error.strerror or str(error))
    except ValueError as error:
        return Made(failure=str(error))
    except cv2.error as error:
        if "MAX_IMAGE_PIXELS" in error.err:
            return Made(failure=f"more than {pixel_limit.most_pixels()} pixels ({pixel_limit.VARIABLE} allows more)")
        return Made(failure=f"OpenCV refuses it: {error.err}")


def _datum(data: bytes, label: int, form: Format) -> Datum:
    """Return the Datum of an image file's contents. Raises ValueError or cv2.error if they are no whole image."""
    may_stay = form.encoded is not None and form.resize is None and not form.gray
    kept = _pixels_if_plain(data, form.encoded) if may_stay else None
    kind = cv2.IMREAD_GRAYSCALE if form.gray else cv2.IMREAD_COLOR
    largest = _largest_value(data)
    image = decoded(data, kind | (cv2.IMREAD_ANYDEPTH if largest else 0)) if kept is None else kept
    if _cut_short(data):
        raise ValueError(f"a JPEG that was cut short after {len(data)} bytes")
    if image is None:
        raise ValueError(f"{len(data)} bytes that OpenCV cannot decode as an image")
    if largest:
        image = np.minimum(np.rint(image * (255 / largest)), 255).astype(np.uint8)
    if kept is not None:
        return encoded_datum(data, label)  # it is what is asked for: no second loss
    if form.resize is not None:
        height, width = form.resize
        image = cv2.resize(image, (width, height))
    if form.encoded is None:
        return image_datum(image, label)
    fits, encoded = cv2.imencode("." + form.encoded, image)
    if not fits:
        raise ValueError(f"too large for {form.encoded}: {by(image.shape[:2])} pixels")
    return encoded_datum(encoded.tobytes(), label)


def file_contents(file: Path) -> bytes:
    """Read a file. Raises OSError if it is no regular file, which may have no end, or too large for a picture."""
    status = file.stat()
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        raise OSError("a FIFO, a device or a socket, expected a regular file")
    if status.st_size > pixel_limit.most_bytes():
        raise OSError(f"{status.st_size} bytes, more than a picture of {pixel_limit.most_pixels()} pixels has")
    return file.read_bytes()


_MARKER = re.compile(rb"\xff([^\x00\x01\xd0-\xd8\xff])", re.DOTALL)
"""Of a JPEG, if it ends a scan: inside one every byte FF is followed by 00 or a restart number."""


def _cut_short(data: bytes) -> bool:
    """Whether a JPEG ends before its end-of-image marker.

    Segments are passed over, for a preview in one has such a marker too.
    """
    if not data.startswith(_BEGINNINGS["jpg"]):
        return False
    place = 2
    while marker := _MARKER.search(data, place):
        if marker[1] == b"\xd9":
            return False
        place = marker.end() + int.from_bytes(data[marker.end() : marker.end() + 2])  # of the segment, or scan's header
    return True


_PGM = re.compile(rb"P([2356])" + 3 * rb"(?:\s|#[^\r\n]*[\r\n])+(\d+)")
"""Kind, width, height and largest value of a PGM or a PPM, with blanks and comments between them."""


def _largest_value(data: bytes) -> int | None:
    """The largest value of a PGM or a PPM for which OpenCV takes another one: 255 or 65,535, but in text below 256."""
    header = _PGM.match(data)
    largest = int(header[4]) if header else 255
    heeded = largest in (255, 65535) or (largest < 255 and header[1] in b"23")
    return None if heeded or not 0 < largest < 65536 else largest


_BEGINNINGS = {"jpg": b"\xff\xd8", "png": b"\x89PNG\r\n\x1a\n"}
"""Of the files of each format, whatever they are called."""


def _pixels_if_plain(data: bytes, form: str) -> NDArray[np.uint8] | None:
    """The pixels of a file of a format if Caffe, which decodes it as it is, gets upright B, G, R; else None.

    Raises cv2.error as :func:`decoded` does.
    """
    if not data.startswith(_BEGINNINGS[form]):
        return None
    image = decoded(data, cv2.IMREAD_UNCHANGED)
    if image is None or image.dtype != np.uint8 or image.shape[2:] != (3,):
        return None
    may_be_turned = b"Exif" in data or b"eXIf" in data  # by its orientation, which IMREAD_COLOR respects
    return None if may_be_turned and not np.array_equal(image, decoded(data, cv2.IMREAD_COLOR)) else image


def make_readable(
    entries: Sequence[Entry], form: Format, jobs: int, *, skip: bool, remedy: str = ""
) -> Iterator[tuple[Entry, Made]]:
    """Yield each entry that can be read, in order, with what ``make`` returns; ``jobs`` threads do the work.

    One that cannot is named on stderr and left out or, unless ``skip``, raises ProgramError with ``remedy`` at its end.
    """
    cv2.setNumThreads(1)  # ours are the parallelism: OpenCV works outside the interpreter's lock
    made_in_order = in_threads(lambda entry: make(entry.file, entry.label, form), entries, jobs)
    for entry, made in zip(entries, made_in_order, strict=True):
        if made.failure is None:
            yield entry, made
        elif skip:
            tqdm.write(f"left out {printable(entry.file)}: {made.failure}", file=sys.stderr)
        else:
            raise ProgramError(f"{entry.file}: {made.failure}{remedy}")
