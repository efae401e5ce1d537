"""From pixels to the input of a net, the same in training, in tests and for new images: arrays and LMDBs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import cv2
import numpy as np
from caffe.proto.caffe_pb2 import Datum
from numpy.typing import NDArray

from latent_domains.common.program import ProgramError
from latent_domains.data import lmdb_io

Values = NDArray[np.uint8 | np.float32]
"""A stored image: C×H×W, colour as B, G, R."""


@dataclass(frozen=True)
class Preprocessing:
    """``stored_shape`` is channels, height and width that an image is resized to; ``crop`` the side of the square in
    the middle that the net sees of it (None: all of it). Pixels enter as (value - ``mean``) * ``scale``, with one mean
    for all channels or one for each (B, G, R).
    """

    stored_shape: tuple[int, int, int]
    crop: int | None
    mean: tuple[float, ...]
    scale: float

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height, width of the net's input."""
        return self.stored_shape if self.crop is None else (self.stored_shape[0], self.crop, self.crop)

    def inputs(self, images: Sequence[Values]) -> NDArray[np.float32]:
        """Images of ``stored_shape`` as the net's input (n×C×H×W), as Caffe's Data layer makes it in the TEST phase.

        Where the square cannot be in the middle, it lies half a pixel up and left, as in Caffe.
        """
        rows = np.empty((len(images), *self.shape), np.float32)
        for row, image in zip(rows, images, strict=True):
            top, left = (image.shape[1] - self.shape[1]) // 2, (image.shape[2] - self.shape[2]) // 2
            row[...] = image[:, top : top + self.shape[1], left : left + self.shape[2]]
        rows -= np.array(self.mean or (0,), np.float32).reshape(-1, 1, 1)
        rows *= np.float32(self.scale)
        return rows


def batches(
    path: Path, form: Preprocessing, batch_size: int, limit: int | None = None
) -> Iterator[tuple[NDArray[np.float32], NDArray[np.int64]]]:
    """Yield inputs (n×C×H×W) and labels (n) of the first ``limit`` records, or of all; n is smaller in the last batch.

    The inputs are cropped in the middle, as Caffe crops in the TEST phase, and then (value - mean) * scale.
    Raises ProgramError if a record holds no image or one of another shape than ``form``'s.
    """
    for _, inputs, labels in keyed_batches(path, form, batch_size, limit):
        yield inputs, labels


def keyed_batches(
    path: Path, form: Preprocessing, batch_size: int, limit: int | None = None
) -> Iterator[tuple[list[bytes], NDArray[np.float32], NDArray[np.int64]]]:
    """Yield what ``batches`` yields, each batch after the keys of its records."""
    if batch_size < 1:
        raise ValueError(f"batch size: got {batch_size}, expected at least 1")
    records = islice(lmdb_io.read(path), limit)
    while batch := list(islice(records, batch_size)):
        inputs = form.inputs([_values(path, key, datum, form.stored_shape) for key, datum in batch])
        yield [key for key, _ in batch], inputs, np.array([datum.label for _, datum in batch], np.int64)


def _values(path: Path, key: bytes, datum: Datum, shape: tuple[int, int, int]) -> Values:
    """The record's values (C×H×W), bytes before floats as Caffe takes them."""
    try:
        if datum.encoded or datum.data:
            values = lmdb_io.datum_image(datum)
        else:
            values = np.fromiter(datum.float_data, np.float32, len(datum.float_data))
            values = values.reshape(datum.channels, datum.height, datum.width)
    except (ValueError, cv2.error) as error:
        raise ProgramError(f"{path}: record {lmdb_io.shown(key)} holds no image: {error}") from error
    if values.shape != shape:
        raise ProgramError(
            f"{path}: record {lmdb_io.shown(key)} is {lmdb_io.by(values.shape)}, expected {lmdb_io.by(shape)}"
        )
    if datum.encoded and values.dtype != np.uint8:
        raise ProgramError(f"{path}: record {lmdb_io.shown(key)} has pixels of {values.dtype}, expected uint8")
    return values
