"""The digit domains as LMDBs: MNIST, MNIST-M, USPS and variants of them, train and test, all 28×28×3.

MNIST's IDX files (LeCun, Cortes, Burges) have a big-endian header (magic, sizes), then one byte a pixel or label. USPS
has the text format of *The Elements of Statistical Learning* (Hastie, Tibshirani, Friedman): one digit a line, its
label and then 256 values from -1 (paper) to 1 (ink), row after row of a 16×16 image.
"""

from functools import cache, partial
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from latent_domains.data.lmdb_plans import Images, PlannedLmdb, plan_of_arrays
from latent_domains.data.published_file import PublishedFile, read_contents
from latent_domains.data.sets import bsds500, mnistm, urls

VERSION = 1
"""Increased whenever the same inputs and seed give other images or another order."""


DOMAINS = {
    "digits": ("mnist", "mnistm", "usps"),
    "digits_hard": ("mnist", "mnistm", "usps", "inverted", "usps_bicubic", "usps_nearest"),
}
"""Domains of each dataset: the paper's; and these plus inverted MNIST and USPS resized in another way."""


def plans(
    out: Path, seed: int, mirror: Path | None = None, downloads: Path | None = None, dataset: str = "digits"
) -> list[PlannedLmdb]:
    """Plan the LMDBs of ``dataset`` in its folder of ``out``, two for each domain.

    Nothing is read or downloaded before one of them is built. A domain has the same images in both datasets. The seed
    draws the order of the training images and MNIST-M's patches in them; the test images are the same for all seeds.
    MNIST-M blends each digit of the same half of MNIST with a patch of any of the 500 photographs; each half has its
    own draws. ``downloads`` keeps downloaded files (default: ``out``/downloads).
    """
    downloads = downloads or out / "downloads"
    drawn = {"train": seed, "test": 0}

    def contents(file: PublishedFile) -> bytes:
        return read_contents(file, downloads, mirror)

    @cache
    def mnist_images(split: str) -> Images:
        images, labels = urls.MNIST_TRAIN if split == "train" else urls.MNIST_TEST
        return parse_idx(contents(images)), parse_idx(contents(labels)).astype(np.int64)

    @cache
    def photographs() -> list[np.ndarray]:
        return bsds500.load(downloads, mirror)

    @cache
    def usps_16x16(split: str) -> Images:
        return parse_usps(contents(urls.USPS_TRAIN if split == "train" else urls.USPS_TEST))

    def usps_images(split: str, interpolation: int = cv2.INTER_LINEAR) -> Images:
        images, labels = usps_16x16(split)
        return resized(images, interpolation), labels

    def mnistm_images(split: str) -> Images:
        digits, labels = mnist_images(split)
        rng = np.random.default_rng([drawn[split], 1000 + (split == "test")])
        patches = mnistm.random_patches(photographs(), len(digits), digits.shape[1], rng)
        return mnistm.blend(digits, patches), labels

    def inverted_images(split: str) -> Images:
        digits, labels = mnist_images(split)
        return 255 - digits, labels

    makers = {
        "mnist": mnist_images,
        "mnistm": mnistm_images,
        "usps": usps_images,
        "inverted": inverted_images,
        "usps_bicubic": partial(usps_images, interpolation=cv2.INTER_CUBIC),
        "usps_nearest": partial(usps_images, interpolation=cv2.INTER_NEAREST),
    }
    result = []
    for name in DOMAINS[dataset]:
        for split in ("train", "test"):
            part = f"{name}_{split}"
            origin = {"program": f"tools.get_data {dataset}", "part": part, "seed": drawn[split], "version": VERSION}
            order = (drawn[split], len(result))
            result.append(plan_of_arrays(out / dataset / part, origin, lambda m=makers[name], s=split: m(s), order))
    return result


def parse_idx(data: bytes) -> NDArray[np.uint8]:
    """Return the contents of an IDX file of bytes: images (n×rows×columns, ink bright), or labels (n)."""
    dimensions = data[3]
    sizes = np.frombuffer(data, ">u4", dimensions, offset=4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * dimensions).reshape(sizes.tolist())


def parse_usps(data: bytes) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the images (n×16×16, 0 paper to 255 ink) and labels (n) of a file."""
    rows = np.loadtxt(data.decode().splitlines())
    images = np.rint((rows[:, 1:] + 1) * 127.5).astype(np.uint8)
    return images.reshape(-1, 16, 16), rows[:, 0].astype(np.int64)


def resized(images: NDArray[np.uint8], interpolation: int = cv2.INTER_LINEAR) -> NDArray[np.uint8]:
    """Resize images (n×H×W) to n×28×28, by default bilinear as Caffe's own programs do."""
    return np.stack([cv2.resize(image, (28, 28), interpolation=interpolation) for image in images])
