"""The images of LMDBs as inputs of a net, batch by batch."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import cv2
import numpy as np
from caffe.proto.caffe_pb2 import Datum
from numpy.typing import NDArray

from latent_domains.common.program import ProgramError
from latent_domains.common.wording import by
from latent_domains.data import lmdb_io
from latent_domains.data.preprocessing import Preprocessing, Values


def batches(
    path: Path, form: Preprocessing, batch_size: int, limit: int | None = None
) -> Iterator[tuple[NDArray[np.float32], NDArray[np.int64]]]:
    """Yield inputs (n×C×H×W) and labels (n) of the first ``limit`` records, or of all; the last batch may be smaller.

    The inputs are cropped in the middle, as Caffe crops in the TEST phase, and then (value - mean) * scale. Refuses
    images of another shape than ``form``'s.
    """
    records = islice(lmdb_io.read(path), limit)
    while batch := list(islice(records, batch_size)):
        inputs = form.inputs([record_values(path, key, datum, form.stored_shape) for key, datum in batch])
        yield inputs, np.array([datum.label for _, datum in batch], np.int64)


def record_values(path: Path, key: bytes, datum: Datum, shape: tuple[int, int, int]) -> Values:
    """Return a record's values (C×H×W). If it has bytes and floats, the bytes count, as in Caffe.

    Refuses an image of another shape than ``shape``. ``path`` is the LMDB, for messages.
    """
    try:
        if datum.encoded or datum.data:
            values = lmdb_io.datum_image(datum)
        else:
            values = np.fromiter(datum.float_data, np.float32, len(datum.float_data))
            values = values.reshape(datum.channels, datum.height, datum.width)
    except (ValueError, cv2.error) as error:
        raise ProgramError(f"{path}: record {lmdb_io.key_text(key)} holds no image: {error}") from error
    if values.shape != shape:
        raise ProgramError(f"{path}: record {lmdb_io.key_text(key)} is {by(values.shape)}, expected {by(shape)}")
    if datum.encoded and values.dtype != np.uint8:
        raise ProgramError(f"{path}: record {lmdb_io.key_text(key)} has pixels of {values.dtype}, expected uint8")
    return values
