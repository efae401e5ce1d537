"""The same picture as image files of many kinds, each with what OpenCV, and so all of this project, reads of it."""

from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
from PIL import Image


def odd_images(folder: Path, picture: np.ndarray) -> Iterator[tuple[Path, np.ndarray, int]]:
    """Write ``picture`` (H×W×3, BGR) in each way; yield the file, the pixels expected of it, and by how much they may
    differ (JPEG and WebP lose something).
    """
    folder.mkdir(parents=True)
    gray = cv2.cvtColor(picture, cv2.COLOR_BGR2GRAY)
    rgb = Image.fromarray(picture[..., ::-1])

    file = folder / "gray.png"
    cv2.imwrite(str(file), gray)
    yield file, np.repeat(gray[..., np.newaxis], 3, axis=2), 0

    file = folder / "alpha.png"
    cv2.imwrite(str(file), np.dstack([picture, np.full(picture.shape[:2], 7, np.uint8)]))
    yield file, picture, 0

    file = folder / "sixteen_bits.png"
    cv2.imwrite(str(file), picture.astype(np.uint16) * 257)
    yield file, picture, 0

    file = folder / "palette.png"
    few = (picture // 128) * 255  # eight colours, which a palette holds
    Image.fromarray(few[..., ::-1]).quantize(8).save(file)
    yield file, few, 0

    file = folder / "turned.jpg"
    exif = Image.Exif()
    exif[0x0112] = 6  # "turn it by 90° clockwise to see it"
    rgb.save(file, quality=100, subsampling=0, exif=exif)
    yield file, cv2.rotate(picture, cv2.ROTATE_90_CLOCKWISE), 12

    file = folder / "cmyk.jpg"
    rgb.convert("CMYK").save(file, quality=100)
    yield file, picture, 12

    file = folder / "plain.webp"
    rgb.save(file, lossless=True)
    yield file, picture, 0

    file = folder / "from_chrome.jfif"
    rgb.save(file, "JPEG", quality=100, subsampling=0)
    yield file, picture, 12

    file = folder / "moving.gif"
    Image.fromarray(few[..., ::-1]).save(file, save_all=True, append_images=[rgb])
    yield file, few, 0

    file = folder / "PLAIN.TIFF"
    rgb.save(file)
    yield file, picture, 0
