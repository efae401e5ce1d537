"""The demo's three domains, from what the Python packages bring along; nothing is downloaded.

``plain``: printed digits, bright on black as MNIST's. ``photo``: the same kind of digits as |patch − digit| on patches
of photographs, as MNIST-M is made. ``handwritten``: scikit-learn's 1,797 real handwritten digits (Alpaydin and Kaynak,
"Optical Recognition of Handwritten Digits", UCI). All are 28×28×3. Plain's ground is black on purpose: where ground and
ink vary within plain, the branch divides all images by contrast instead (results/demo).
"""

from functools import partial
from importlib.resources import files
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from latent_domains.common.program import ProgramError
from latent_domains.data.lmdb_plans import Images, PlannedLmdb, plan_of_arrays
from latent_domains.data.sets import glyphs, mnistm

VERSION = 2
"""Increased whenever the same seed gives other images or another order."""

SIDE = 28
RENDERED = {"train": 5000, "test": 1000}
"""Images of each of the two rendered domains, the ten digits in equal numbers."""

HANDWRITTEN_TRAIN = 1197
"""The first handwritten digits, so many, are the target's training images; the other 600 are its test images."""

PHOTOGRAPHS = (
    ("sklearn", "datasets/images/china.jpg"),
    ("sklearn", "datasets/images/flower.jpg"),
    ("skimage", "data/astronaut.png"),
    ("skimage", "data/chelsea.png"),
    ("skimage", "data/coffee.png"),
    ("skimage", "data/motorcycle_left.png"),
    ("skimage", "data/rocket.jpg"),
    ("matplotlib", "mpl-data/sample_data/grace_hopper.jpg"),
)
"""Package and file: colour photographs that are inside the packages themselves."""


def plans(out: Path, seed: int) -> list[PlannedLmdb]:
    """Plan the six LMDBs under ``out``/demo, two for each domain. Nothing is rendered before one of them is built.

    The seed draws the training images and their order; the test images are the same for all seeds.
    """
    result = []
    for name in ("plain", "photo", "handwritten"):
        for split, drawn in (("train", seed), ("test", 0)):
            part = f"{name}_{split}"
            origin = {"program": "tools.get_data demo", "part": part, "seed": drawn, "version": VERSION}
            stream = (drawn, 2000 + len(result))
            order = (drawn, 100 + len(result))
            result.append(plan_of_arrays(out / "demo" / part, origin, partial(_images, name, split, stream), order))
    return result


def _images(name: str, split: str, seed: tuple[int, ...]) -> Images:
    if name == "handwritten":
        return handwritten(split)
    maker = {"plain": plain, "photo": photo}[name]
    return maker(np.random.default_rng(seed), RENDERED[split])


def plain(rng: np.random.Generator, n: int) -> Images:
    """Return printed digits (n×28×28, gray): ink 200-255 on a black ground."""
    return _printed(rng, n, "render plain")


def photo(rng: np.random.Generator, n: int) -> Images:
    """Return |patch − digit| (n×28×28×3, BGR) of the same kind of digits and patches of the photographs."""
    digits, labels = _printed(rng, n, "render photo")
    return mnistm.blend(digits, mnistm.random_patches(load_photographs(), n, SIDE, rng)), labels


def _printed(rng: np.random.Generator, n: int, name: str) -> Images:
    labels = np.arange(n) % 10
    ink = glyphs.render(glyphs.load_glyphs(), labels, SIDE, rng, name)
    return np.rint(ink * rng.uniform(200, 255, (n, 1, 1))).astype(np.uint8), labels


def load_photographs() -> list[NDArray[np.uint8]]:
    """Return the photographs (H×W×3, BGR), each at full, half and a third of its size: patches of three scales."""
    photographs = []
    for package, name in PHOTOGRAPHS:
        file = Path(str(files(package))) / name
        image = cv2.imread(str(file), cv2.IMREAD_COLOR) if file.is_file() else None
        if image is None:
            raise ProgramError(f"{file}: expected a photograph here, inside the package {package}")
        for part in (1, 2, 3):
            size = (image.shape[1] // part, image.shape[0] // part)
            photographs.append(cv2.resize(image, size, interpolation=cv2.INTER_AREA))
    return photographs


def handwritten(split: str) -> Images:
    """Return the "train" or "test" half of scikit-learn's handwritten digits (n×28×28, gray), enlarged from 8×8."""
    from sklearn.datasets import load_digits  # slow to import, and only needed here

    bunch = load_digits()
    half = slice(HANDWRITTEN_TRAIN) if split == "train" else slice(HANDWRITTEN_TRAIN, None)
    images = [cv2.resize(image, (SIDE, SIDE), interpolation=cv2.INTER_CUBIC) for image in bunch.images[half]]
    labels = bunch.target[half].astype(np.int64)
    return np.rint(np.clip(np.stack(images) * (255 / 16), 0, 255)).astype(np.uint8), labels
