"""USPS zip codes in the text format of *The Elements of Statistical Learning*.

Source: Hastie, Tibshirani, Friedman, data page of the book, "ZIP code": one digit a line, its label and then 256
values from -1 (paper) to 1 (ink), row after row of a 16×16 image.
"""

import cv2
import numpy as np
from numpy.typing import NDArray

from latent_domains.common.program import ProgramError

SIDE = 16
TRAIN_COUNTS = (1194, 1005, 731, 658, 652, 556, 664, 645, 542, 644)
"""Digits of each class in the training file, 7,291 in all."""
TEST_COUNTS = (359, 264, 198, 166, 200, 160, 170, 147, 166, 177)
"""Digits of each class in the test file, 2,007 in all."""


def parse(name: str, data: bytes, counts: tuple[int, ...] | None = None) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the images (n×16×16, uint8, 0 paper to 255 ink) and labels (n) of an unpacked file.

    ``name`` is for messages. Raises ProgramError naming file and line if a line has not 1 + 256 numbers, a label that
    is no digit or a value outside -1..1, and if the classes are not as many as ``counts`` says.
    """
    lines = data.splitlines()
    labels = np.zeros(len(lines), np.int64)
    values = np.zeros((len(lines), SIDE * SIDE), np.float64)
    for i, line in enumerate(lines):
        fields = line.split()
        where = f"{name}, line {i + 1}"
        if len(fields) != 1 + SIDE * SIDE:
            raise ProgramError(f"{where}: {len(fields)} numbers, expected a label and {SIDE * SIDE} values")
        try:
            row = np.array(fields, np.float64)
        except ValueError as error:
            raise ProgramError(f"{where}: expected numbers only: {error}") from error
        if row[0] not in range(10):
            raise ProgramError(f"{where}: label {row[0]:g}, expected a digit 0 to 9")
        # not (… <= 1) instead of (… > 1): NaN must not pass
        if not np.abs(row[1:]).max() <= 1:
            raise ProgramError(f"{where}: a value outside -1 to 1 (from {row[1:].min():g} to {row[1:].max():g})")
        labels[i] = int(row[0])
        values[i] = row[1:]
    found = tuple(int(n) for n in np.bincount(labels, minlength=10))
    if counts is not None and found != counts:
        raise ProgramError(f"{name}: {found} digits of the classes 0 to 9, expected {counts}")
    return np.rint((values + 1) * 127.5).astype(np.uint8).reshape(-1, SIDE, SIDE), labels


def resize(images: NDArray[np.uint8], side: int = 28, *, interpolation: int = cv2.INTER_LINEAR) -> NDArray[np.uint8]:
    """Resize n×16×16 images to n×side×side, by default bilinear as Caffe's own programs do."""
    resized = np.zeros((len(images), side, side), np.uint8)
    for image, out in zip(images, resized, strict=True):
        cv2.resize(image, (side, side), out, interpolation=interpolation)
    return resized
