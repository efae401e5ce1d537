"""The digit domains as LMDBs: MNIST, MNIST-M and USPS, train and test, all 28×28×3."""

from functools import cache
from pathlib import Path

import numpy as np

from latent_domains.data import fetch
from latent_domains.data.parts import Images, Part, array_part
from latent_domains.data.sets import bsds500, mnist, mnistm, urls, usps
from latent_domains.data.sets.urls import GzipFile

VERSION = 1
"""Raised whenever the same inputs and seed give other images or another order."""


def parts(out: Path, seed: int, mirror: Path | None = None, downloads: Path | None = None) -> list[Part]:
    """Return the six parts under ``out``/digits. Nothing is read or downloaded before one of them is built.

    The seed draws the order of the training images and MNIST-M's patches among them; the test images are the same for
    all seeds. MNIST-M blends each digit of MNIST's same half with a patch of any of the 500 photographs: they serve
    both halves, with draws of their own. ``downloads`` keeps what is downloaded (default: ``out``/downloads).
    """
    downloads = downloads or out / "downloads"
    drawn = {"train": seed, "test": 0}

    def unpacked(file: GzipFile) -> tuple[str, bytes]:
        return file.path, fetch.unpacked(file, downloads, mirror)

    @cache
    def mnist_images(split: str) -> Images:
        images, labels = urls.MNIST_TRAIN if split == "train" else urls.MNIST_TEST
        return mnist.parse_images(*unpacked(images)), mnist.parse_labels(*unpacked(labels))

    @cache
    def photographs() -> list[np.ndarray]:
        return bsds500.load(downloads, mirror)

    def usps_images(split: str) -> Images:
        train = split == "train"
        images, labels = usps.parse(
            *unpacked(urls.USPS_TRAIN if train else urls.USPS_TEST),
            usps.TRAIN_COUNTS if train else usps.TEST_COUNTS,
        )
        return usps.resize(images), labels

    def mnistm_images(split: str) -> Images:
        digits, labels = mnist_images(split)
        rng = np.random.default_rng([drawn[split], 1000 + (split == "test")])
        patches = mnistm.random_patches(photographs(), len(digits), digits.shape[1], rng)
        return mnistm.blend(digits, patches), labels

    makers = {"mnist": mnist_images, "mnistm": mnistm_images, "usps": usps_images}
    result = []
    for name, maker in makers.items():
        for split in ("train", "test"):
            part = f"{name}_{split}"
            recipe = {"program": "tools.get_data digits", "part": part, "seed": drawn[split], "version": VERSION}
            order = (drawn[split], len(result))
            result.append(array_part(out / "digits" / part, recipe, lambda m=maker, s=split: m(s), order))
    return result
