"""The pixels of image files: 8 bits, as OpenCV reads them, except that transparent parts show a background."""

import re
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from latent_domains.common.arguments import BACKGROUND, RANGE
from latent_domains.data.preprocessing import Reading

KIND, BITS, PHOTOMETRIC, ORIENTATION, SAMPLES, EXTRA_SAMPLES, SAMPLE_FORMAT = 254, 258, 262, 274, 277, 338, 339
"""Numbers of TIFF tags."""

_FORMATS = {1: "B", 3: "H", 4: "I", 16: "Q"}
"""Formats of whole numbers, by the number of their type."""

_MOST = 16
"""How many numbers of a tag are read at most."""

Tags = dict[int, tuple[int, ...]]
"""Whole numbers, up to _MOST, by the tag's number."""


@dataclass(frozen=True)
class Pixels:
    """The pixels of a picture: H×W×3 (B, G, R) or, of a gray one, H×W."""

    image: NDArray[np.uint8]
    transparent: bool = False
    """Whether a part of it shows the background."""
    several: bool = False
    """Whether the file has other pages; this is the first one."""


def read_pixels(data: bytes, reading: Reading, *, gray: bool = False) -> Pixels:
    """Return what an image file's contents show. Raises ValueError or cv2.error if they are not a whole image."""
    header, shown, transparent = _header(data), None, False
    flags = cv2.IMREAD_GRAYSCALE if gray else cv2.IMREAD_COLOR
    if header.alpha or header.deep:
        shown, transparent = _shown(data, header, reading)
    if shown is None:
        largest = _largest_value(data)
        shown = decoded(data, flags | (cv2.IMREAD_ANYDEPTH if largest else 0))
        if shown is not None and largest:
            shown = _scaled(shown, (0, largest))
    elif gray != (shown.ndim == 2):
        shown = cv2.cvtColor(shown, cv2.COLOR_BGR2GRAY if gray else cv2.COLOR_GRAY2BGR)
    check_whole(data)
    if shown is None:
        raise ValueError(f"{len(data)} bytes that OpenCV cannot decode as an image")
    return Pixels(shown, transparent, header.several)


def decided_by(data: bytes, reading: Reading) -> dict[str, str]:
    """Return the options of a ``reading`` on which an image file's pixels depend; none if it is not an image."""
    try:
        header = _header(data)
        transparent = header.alpha and bool((_layers(data, header)[1] < 1).any())
    except (ValueError, cv2.error):
        return {}
    depends = {BACKGROUND: transparent, RANGE: header.deep}
    return {option: word for option, word in reading.words.items() if word is not None and depends[option]}


def deep_values(data: bytes) -> tuple[NDArray[Any], int] | None:
    """Return the values of a picture of more than 8 bits, and the number of bits in its header; None for others."""
    try:
        header = _header(data)
        return (_layers(data, header)[0], header.bits) if header.deep else None
    except (ValueError, cv2.error):
        return None


def decoded(data: bytes, flags: int) -> NDArray[Any] | None:
    """Return the pixels of an image file; None if it is damaged or not an image.

    Raises cv2.error, as for an image that is too large: a PNG of a few bytes may announce 4 GB, which OpenCV would
    allocate first.
    """
    if len(data) < 8 or (_is_png(data) and any(end + _CHECKSUM > len(data) for _, _, end in _chunks(data))):
        return None
    return cv2.imdecode(np.frombuffer(data, np.uint8), flags)


BEGINNINGS = {"jpg": b"\xff\xd8", "png": b"\x89PNG\r\n\x1a\n"}
"""First bytes of the files of each format, whatever their names are."""


# --- what a header says


@dataclass(frozen=True)
class _Header:
    """The facts in a file's header. OpenCV reads an 8-bit file without ``alpha`` correctly."""

    alpha: bool = False
    """Whether parts may be transparent."""
    deep: bool = False
    """Whether values have more than 8 bits, or a sign."""
    bits: int = 16
    """Bits of a value, if it is deep."""
    signed: bool = False
    """Whether values have a sign or a fraction."""
    premultiplied: bool = False
    """Whether OpenCV returns colours that are multiplied by their opacity."""
    orientation: int = 1
    """By EXIF, 1 to 8: OpenCV does not turn what it reads unchanged."""
    several: bool = False
    key: int | None = None
    """The gray value of a PNG that is transparent, which OpenCV ignores."""


def _header(data: bytes) -> _Header:
    if _is_png(data) and len(data) > 25:
        return _of_png(data)
    if first := next(of_pages := pages(data), None):
        return _of_tiff(first, of_pages)
    if data[8:12] == b"WEBP":
        exif = data.rpartition(b"EXIF")[2][4:] if b"EXIF" in data else b""
        return _Header(data[12:16] != b"VP8 ", orientation=_orientation(exif))
    return _Header(data.startswith((b"GIF8", b"BM")))


def _of_png(data: bytes) -> _Header:
    found = {name: data[start:end] for name, start, end in _chunks(data) if name in (b"tRNS", b"eXIf")}
    depth, colour, transparent = data[24], data[25], found.get(b"tRNS", b"")
    key = None
    if colour == 0 and transparent:  # gray
        key = int.from_bytes(transparent[:2]) * (1 if depth == 16 else 255 // max(1, 2**depth - 1))
    alpha = bool(colour & 4 or transparent)
    return _Header(alpha, depth == 16, orientation=_orientation(found.get(b"eXIf", b"")), key=key)


def _of_tiff(first: Tags, others: Iterable[Tags]) -> _Header:
    extra, bits = first.get(EXTRA_SAMPLES, ()), max(first.get(BITS, (1,)))
    photometric, samples = (first.get(tag, (1,))[0] for tag in (PHOTOMETRIC, SAMPLES))
    alpha = not {1, 2}.isdisjoint(extra) or (not extra and (photometric, samples) == (2, 4))  # as OpenCV writes it
    if alpha and photometric < 2:
        raise ValueError("a gray TIFF with an alpha channel, which OpenCV leaves out: expected R, G, B and alpha")
    signed = not {1}.issuperset(first.get(SAMPLE_FORMAT, ()))
    return _Header(
        alpha,
        deep=bits > 8 or signed,
        bits=bits,
        signed=signed,
        premultiplied=1 in extra or (bits <= 8 and 2 in extra),  # libtiff multiplies these 8 bits
        several=any(not page.get(KIND, (0,))[0] & 1 for page in others),  # the bit is that of a smaller copy
    )


def _is_png(data: bytes) -> bool:
    return data.startswith(BEGINNINGS["png"])


_CHECKSUM = 4
"""Bytes after the contents of a chunk."""


def _chunks(data: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Yield name, begin and end of the contents of each chunk of a PNG; the last one may end beyond the file."""
    place, name = 8, b""
    while place < len(data) and name != b"IEND":
        name, start = data[place + 4 : place + 8], place + 8
        end = start + int.from_bytes(data[place : place + 4])
        yield name, start, end
        place = end + _CHECKSUM


def _orientation(exif: bytes) -> int:
    first = next(pages(exif.removeprefix(b"Exif\0\0")), {})
    return first.get(ORIENTATION, (1,))[0]


# --- what is seen


def _shown(data: bytes, header: _Header, reading: Reading) -> tuple[NDArray[np.uint8] | None, bool]:
    """Return what a file with alpha or deep values shows, and whether a part is transparent.

    The pixels are None where OpenCV's own 8 bits are right.
    """
    values, opacity = _layers(data, header)
    transparent = bool((opacity < 1).any())
    if not transparent and (not header.deep or (reading.range is None and header.bits == 16 and not header.signed)):
        return None, False
    if header.deep:
        if reading.range is None and values.dtype != np.uint16:
            raise ValueError(f"numbers of the type {values.dtype}: {RANGE} says which become black and white")
        values = _scaled(values, reading.range or (0, 2**header.bits - 1))
    if transparent:
        colour = values if values.ndim == 3 else np.repeat(values[..., np.newaxis], 3, axis=2)
        seen = colour if header.premultiplied else colour * opacity
        values = np.minimum(np.rint(seen + (1 - opacity) * reading.background), 255).astype(np.uint8)
    return values, transparent


def _layers(data: bytes, header: _Header) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Return the values of a file (H×W, or H×W×3 as B, G, R) and their opacity, 0 to 1 (H×W×1, or 1×1×1)."""
    whole = decoded(data, cv2.IMREAD_UNCHANGED)
    if whole is None:
        raise ValueError(f"{len(data)} bytes that OpenCV cannot decode as an image")
    whole = _upright(whole, header.orientation)
    if whole.dtype == np.uint16 and 8 < header.bits < 16:
        whole >>= 16 - header.bits  # OpenCV has multiplied them
    opaque = np.ones((1, 1, 1))
    if header.key is not None:
        return whole, (whole != header.key)[..., np.newaxis].astype(np.float64)
    if whole.shape[2:] == (4,) and header.alpha:
        largest = np.iinfo(whole.dtype).max if whole.dtype.kind in "iu" else 1
        return whole[..., :3], whole[..., 3:] / largest
    if whole.ndim == 2 or whole.shape[2] >= 3:
        return (whole if whole.ndim == 2 else whole[..., :3]), opaque
    raise ValueError(f"{whole.shape[2]} channels, expected 1, 3 or 4")


def _upright(image: NDArray[Any], orientation: int) -> NDArray[Any]:
    image = image.swapaxes(0, 1) if orientation in (5, 6, 7, 8) else image
    image = image[:, ::-1] if orientation in (2, 3, 6, 7) else image
    return image[::-1] if orientation in (3, 4, 7, 8) else image


def _scaled(values: NDArray[Any], ends: tuple[float, float]) -> NDArray[np.uint8]:
    low, high = ends
    scaled = (values.astype(np.float64) - low) * (255 / (high - low))
    return np.rint(np.nan_to_num(scaled, nan=0).clip(0, 255)).astype(np.uint8)


# --- faults that OpenCV passes over


_MARKER = re.compile(rb"\xff([^\x00\x01\xd0-\xd8\xff])", re.DOTALL)
"""A marker that ends a scan of a JPEG: in a scan every byte FF is followed by 00 or a restart number."""


def check_whole(data: bytes) -> None:
    """Raise ValueError if a JPEG ends before its end-of-image marker. Some versions of OpenCV fill the rest with gray.

    Segments are skipped, since a preview in one has such a marker, too.
    """
    if not data.startswith(BEGINNINGS["jpg"]):
        return
    place = 2
    while marker := _MARKER.search(data, place):
        if marker[1] == b"\xd9":
            return
        place = marker.end() + int.from_bytes(data[marker.end() : marker.end() + 2])  # of the segment, or scan's header
    raise ValueError(f"a JPEG that was cut short after {len(data)} bytes")


_PGM = re.compile(rb"P([2356])" + 3 * rb"(?:\s|#[^\r\n]*[\r\n])+(\d+)")
"""Kind, width, height and largest value of a PGM or a PPM, with blanks and comments between them."""


def _largest_value(data: bytes) -> int | None:
    """Return the largest value of a PGM or PPM if OpenCV ignores it and assumes 255 or 65,535; else None."""
    header = _PGM.match(data)
    largest = int(header[4]) if header else 255
    heeded = largest in (255, 65535) or (largest < 255 and header[1] in b"23")
    return None if heeded or not 0 < largest < 65536 else largest


def pages(data: bytes) -> Iterator[Tags]:
    """Yield the tags of each page, as far as the file is whole; nothing if it is not a TIFF."""
    order, version = {b"II": "<", b"MM": ">"}.get(data[:2]), data[2:4].strip(b"\0")
    if order is None or version not in (b"*", b"+"):
        return
    big = version == b"+"  # BigTIFF
    length, long, room = ("Q", "Q", 8) if big else ("H", "I", 4)
    entry = struct.Struct(f"{order}HH{long}{room}s")
    seen: set[int] = set()
    with suppress(struct.error, OverflowError):
        (place,) = struct.unpack_from(order + long, data, 8 if big else 4)
        while place and place not in seen:
            seen.add(place)
            (count,) = struct.unpack_from(order + length, data, place)
            start = place + struct.calcsize(length)
            (place,) = struct.unpack_from(order + long, data, start + count * entry.size)  # before what costs time
            yield {
                tag: numbers
                for at in range(start, start + count * entry.size, entry.size)
                for tag, kind, number, inline in [entry.unpack_from(data, at)]
                if (numbers := _numbers(data, order, _FORMATS.get(kind), number, inline, order + long))
            }


def _numbers(data: bytes, order: str, form: str | None, number: int, inline: bytes, long: str) -> tuple[int, ...]:
    """Return the numbers of a tag, which are in its entry if they fit; else the entry points to them."""
    if form is None or not number:
        return ()
    numbers = f"{order}{min(number, _MOST)}{form}"
    if number * struct.calcsize(form) <= len(inline):
        return struct.unpack_from(numbers, inline)
    return struct.unpack_from(numbers, data, *struct.unpack(long, inline))
