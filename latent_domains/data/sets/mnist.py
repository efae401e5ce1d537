"""MNIST's IDX files.

Source: LeCun, Cortes, Burges, "The MNIST database of handwritten digits": a big-endian header (magic, sizes), then
one byte a pixel or label.
"""

import struct
from math import prod

import numpy as np
from numpy.typing import NDArray

from latent_domains.common.program import ProgramError
from latent_domains.common.wording import by

IMAGES_MAGIC = 0x803
LABELS_MAGIC = 0x801
_WHAT = {IMAGES_MAGIC: "images", LABELS_MAGIC: "labels"}


def parse_images(name: str, data: bytes) -> NDArray[np.uint8]:
    """Return the images (n×rows×columns, uint8, ink bright) of an unpacked IDX file; ``name`` is for messages."""
    n, rows, columns = _header(name, data, IMAGES_MAGIC)
    return _body(name, data, (n, rows, columns))


def parse_labels(name: str, data: bytes) -> NDArray[np.int64]:
    """Return the labels (n, each 0-9) of an unpacked IDX file; ``name`` is for messages."""
    labels = _body(name, data, _header(name, data, LABELS_MAGIC))
    if labels.size and labels.max() > 9:
        raise ProgramError(f"{name}: label {labels.max()} at position {labels.argmax()}, expected 0 to 9")
    return labels.astype(np.int64)


def _header(name: str, data: bytes, magic: int) -> tuple[int, ...]:
    """Check the magic number and return the sizes that follow it."""
    dimensions = magic & 0xFF
    length = 4 + 4 * dimensions
    if len(data) < length:
        raise ProgramError(f"{name}: {len(data)} bytes, too short for the {length}-byte header of IDX {_WHAT[magic]}")
    found, *sizes = struct.unpack(f">{1 + dimensions}I", data[:length])
    if found != magic:
        raise ProgramError(
            f"{name}: magic number {found:#010x}, expected {magic:#010x} (IDX {_WHAT[magic]}, one byte each)"
        )
    return tuple(sizes)


def _body(name: str, data: bytes, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """Return what follows the header, which must fill ``shape`` exactly."""
    start = 4 + 4 * len(shape)
    expected = prod(shape)  # of plain integers: sizes from a damaged header must not overflow
    if len(data) - start != expected:
        raise ProgramError(f"{name}: {len(data) - start} bytes after the header, expected {by(shape)} = {expected}")
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape)
