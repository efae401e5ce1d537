"""The tags of TIFF files, and of EXIF, which is stored as one."""

import struct
from collections.abc import Iterator
from contextlib import suppress

KIND, BITS, PHOTOMETRIC, ORIENTATION, SAMPLES, EXTRA_SAMPLES, SAMPLE_FORMAT = 254, 258, 262, 274, 277, 338, 339
"""Numbers of tags."""

_FORMATS = {1: "B", 3: "H", 4: "I", 16: "Q"}
"""Of whole numbers, by the number of their type."""

_MOST = 16
"""Numbers that are read of a tag."""

Tags = dict[int, tuple[int, ...]]
"""Whole numbers, up to _MOST, by the tag's number."""


def pages(data: bytes) -> Iterator[Tags]:
    """Yield the tags of each page, as far as the file is whole; nothing if it is no TIFF."""
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
    """The numbers of a tag, which are in its entry if they fit, else where this points to."""
    if form is None or not number:
        return ()
    numbers = f"{order}{min(number, _MOST)}{form}"
    if number * struct.calcsize(form) <= len(inline):
        return struct.unpack_from(numbers, inline)
    return struct.unpack_from(numbers, data, *struct.unpack(long, inline))
