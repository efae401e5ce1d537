import struct

import numpy as np
import pytest

from latent_domains.common.program import ProgramError
from latent_domains.data.sets import mnist

IMAGES = np.random.default_rng(0).integers(0, 256, (5, 4, 3)).astype(np.uint8)
LABELS = np.array([0, 9, 3, 3, 1], np.uint8)
IMAGE_FILE = struct.pack(">4I", 0x803, 5, 4, 3) + IMAGES.tobytes()
LABEL_FILE = struct.pack(">2I", 0x801, 5) + LABELS.tobytes()


def test_images_and_labels_are_read():
    assert np.array_equal(mnist.parse_images("i", IMAGE_FILE), IMAGES)
    labels = mnist.parse_labels("l", LABEL_FILE)
    assert labels.tolist() == LABELS.tolist() and labels.dtype == np.int64


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "x: 0 bytes, too short for the 16-byte header of IDX images"),
        (IMAGE_FILE[:15], "x: 15 bytes, too short"),
        (LABEL_FILE + bytes(8), "x: magic number 0x00000801, expected 0x00000803"),
        (b"<!DOCTYPE html><html>", "x: magic number 0x3c21444f, expected 0x00000803"),
        (IMAGE_FILE[:-1], "x: 59 bytes after the header, expected 5×4×3 = 60"),
        (IMAGE_FILE + b"!", "x: 61 bytes after the header, expected 5×4×3 = 60"),
        (struct.pack(">4I", 0x803, *3 * (2**32 - 1,)), "expected 4294967295×4294967295×4294967295 = 7922816"),
    ],
)
def test_a_file_that_holds_no_images_is_named(data, message):
    with pytest.raises(ProgramError, match=message):
        mnist.parse_images("x", data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (LABEL_FILE[:7], "x: 7 bytes, too short for the 8-byte header of IDX labels"),
        (IMAGE_FILE, "x: magic number 0x00000803, expected 0x00000801"),
        (LABEL_FILE[:-2], "x: 3 bytes after the header, expected 5 = 5"),
        (LABEL_FILE[:-1] + b"\x0a", "x: label 10 at position 4, expected 0 to 9"),
    ],
)
def test_a_file_that_holds_no_labels_is_named(data, message):
    with pytest.raises(ProgramError, match=message):
        mnist.parse_labels("x", data)
