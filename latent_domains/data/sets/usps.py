"""USPS zip codes in the text format of *The Elements of Statistical Learning*.

Source: Hastie, Tibshirani, Friedman, data page of the book, "ZIP code": one digit a line, its label and then 256
values from -1 (paper) to 1 (ink), row after row of a 16×16 image.
"""

import cv2
import numpy as np
from numpy.typing import NDArray

SIDE = 16


def parse(data: bytes) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the images (n×16×16, uint8, 0 paper to 255 ink) and labels (n) of an unpacked file."""
    rows = np.loadtxt(data.decode().splitlines())
    images = np.rint((rows[:, 1:] + 1) * 127.5).astype(np.uint8)
    return images.reshape(-1, SIDE, SIDE), rows[:, 0].astype(np.int64)


def resize(images: NDArray[np.uint8], side: int = 28, *, interpolation: int = cv2.INTER_LINEAR) -> NDArray[np.uint8]:
    """Resize n×16×16 images to n×side×side, by default bilinear as Caffe's own programs do."""
    resized = np.zeros((len(images), side, side), np.uint8)
    for image, out in zip(images, resized, strict=True):
        cv2.resize(image, (side, side), out, interpolation=interpolation)
    return resized
