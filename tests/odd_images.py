"""The same picture as image files of many kinds, each with what all of this project reads of it.

That is what OpenCV reads or, of a picture with transparent parts, what is seen on white.
"""

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
    alpha = np.full(picture.shape[:2], 7, np.uint8)
    faint = np.rint((picture * 7.0 + 255 * 248) / 255).astype(np.uint8)
    few = (picture // 128) * 255  # eight colours, which a palette holds
    rgb, few_rgb = Image.fromarray(picture[..., ::-1]), Image.fromarray(few[..., ::-1])
    exif = Image.Exif()
    exif[0x0112] = 6  # "turn it by 90° clockwise to see it"
    turned = cv2.rotate(picture, cv2.ROTATE_90_CLOCKWISE)
    kinds = [
        ("gray.png", lambda file: cv2.imwrite(file, gray), np.repeat(gray[..., np.newaxis], 3, axis=2), 0),
        ("alpha.png", lambda file: cv2.imwrite(file, np.dstack([picture, alpha])), faint, 0),
        ("sixteen_bits.png", lambda file: cv2.imwrite(file, picture.astype(np.uint16) * 257), picture, 0),
        ("palette.png", lambda file: few_rgb.quantize(8).save(file), few, 0),
        ("turned.jpg", lambda file: rgb.save(file, quality=100, subsampling=0, exif=exif), turned, 12),
        ("cmyk.jpg", lambda file: rgb.convert("CMYK").save(file, quality=100), picture, 12),
        ("plain.webp", lambda file: rgb.save(file, lossless=True), picture, 0),
        ("from_chrome.jfif", lambda file: rgb.save(file, "JPEG", quality=100, subsampling=0), picture, 12),
        ("moving.gif", lambda file: few_rgb.save(file, save_all=True, append_images=[rgb]), few, 0),
        ("PLAIN.TIFF", rgb.save, picture, 0),
    ]
    for name, write, expected, difference in kinds:
        write(str(folder / name))
        yield folder / name, expected, difference
