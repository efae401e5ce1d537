import cv2
import numpy as np
import pytest

from latent_domains.common.program import ProgramError
from latent_domains.data.sets import usps


def line(label: object, values: np.ndarray) -> str:
    return f"{label} " + " ".join(f"{value:.4f}" for value in values.ravel()) + " \n"


VALUES = np.linspace(-1, 1, 3 * 256).reshape(3, 16, 16)
FILE = "".join(line(f"{label}.0000", values) for label, values in zip((6, 0, 6), VALUES, strict=True))


def test_values_become_bytes_and_labels_numbers():
    images, labels = usps.parse("x", FILE.encode(), (1, 0, 0, 0, 0, 0, 2, 0, 0, 0))
    assert labels.tolist() == [6, 0, 6]
    assert images.dtype == np.uint8 and images.shape == (3, 16, 16)
    assert images[0, 0, 0] == 0 and images[-1, -1, -1] == 255
    assert np.abs(images - (VALUES + 1) / 2 * 255).max() < 0.51


@pytest.mark.parametrize(
    ("replaced", "by", "message"),
    [
        ("\n6.0000", "\n6.5", "x, line 3: label 6.5, expected a digit 0 to 9"),
        ("\n6.0000", "\n10", "x, line 3: label 10, expected a digit"),
        ("\n6.0000", "\nnan", "x, line 3: label nan, expected a digit"),
        ("\n0.0000 ", "\n0.0000 0.5 ", "x, line 2: 258 numbers, expected a label and 256 values"),
        ("\n0.0000 ", "\n\n0.0000 ", "x, line 2: 0 numbers"),
        ("-1.0000", "-1.0001", "x, line 1: a value outside -1 to 1 .from -1.0001 to"),
        ("-1.0000", "nan", "x, line 1: a value outside -1 to 1"),
        ("-1.0000", "minus", "x, line 1: expected numbers only: .*minus"),
    ],
)
def test_a_bad_line_is_named(replaced, by, message):
    assert replaced in FILE
    with pytest.raises(ProgramError, match=message):
        usps.parse("x", FILE.replace(replaced, by, 1).encode())


def test_a_short_file_is_named():
    with pytest.raises(ProgramError, match=r"x, line 3: 2\d+ numbers"):
        usps.parse("x", FILE[:-100].encode())
    counts = (1, 0, 0, 0, 0, 0, 2, 0, 0, 0)
    with pytest.raises(ProgramError, match=r"x: \(1, 0, 0, 0, 0, 0, 1, .*expected \(1, 0, 0, 0, 0, 0, 2"):
        usps.parse("x", "".join(FILE.splitlines(keepends=True)[:2]).encode(), counts)
    with pytest.raises(ProgramError, match=r"x: \(0, 0, 0"):
        usps.parse("x", b"", counts)


def test_images_are_resized_one_by_one():
    images = np.random.default_rng(0).integers(0, 256, (4, 16, 16)).astype(np.uint8)
    resized = usps.resize(images)
    assert resized.shape == (4, 28, 28)
    assert all(np.array_equal(cv2.resize(image, (28, 28)), done) for image, done in zip(images, resized, strict=True))
    assert usps.resize(images[:0]).shape == (0, 28, 28)
