"""The demo's three domains, from what the Python packages bring along; nothing is downloaded.

``plain``: printed digits, bright on a plain dark ground. ``photo``: the same kind of digits as |patch − digit| on
patches of photographs. ``handwritten``: scikit-learn's 1,797 real handwritten digits (Alpaydin and Kaynak, "Optical
Recognition of Handwritten Digits", UCI). All are 28×28×3.
"""

from importlib.util import find_spec
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from latent_domains.common.program import ProgramError
from latent_domains.data.parts import Images, Part, array_part
from latent_domains.data.sets import glyphs, mnistm

VERSION = 1
"""Raised whenever the same seed gives other images or another order."""

SIDE = 28
IMAGES = 6000
"""Of each of the two rendered domains, the ten digits in equal numbers."""

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


def parts(out: Path, seed: int) -> list[Part]:
    """Return the three parts under ``out``/demo. Nothing is rendered before one of them is built."""
    makers = {"plain": plain, "photo": photo, "handwritten": lambda _: handwritten()}
    result = []
    for number, (name, maker) in enumerate(makers.items()):
        recipe = {"program": "tools.get_data demo", "part": name, "seed": seed, "version": VERSION}
        rng_seed = (seed, 2000 + number)
        result.append(
            array_part(
                out / "demo" / name,
                recipe,
                lambda m=maker, s=rng_seed: m(np.random.default_rng(s)),
                (seed, 100 + number),
            )
        )
    return result


def _digits(n: int) -> NDArray[np.int64]:
    return np.arange(n) % 10


def plain(rng: np.random.Generator, n: int = IMAGES) -> Images:
    """Return printed digits (n×28×28, gray): ground 0-70, ink 150-255."""
    labels = _digits(n)
    ink = glyphs.render(glyphs.load_glyphs(), labels, SIDE, rng, "render plain")
    ground = rng.uniform(0, 70, (n, 1, 1))
    bright = rng.uniform(150, 255, (n, 1, 1))
    return np.rint(ground + ink * (bright - ground)).astype(np.uint8), labels


def photo(rng: np.random.Generator, n: int = IMAGES) -> Images:
    """Return |patch − digit| (n×28×28×3, BGR) of printed digits (ink 200-255) and patches of the photographs."""
    labels = _digits(n)
    ink = glyphs.render(glyphs.load_glyphs(), labels, SIDE, rng, "render photo")
    digits = np.rint(ink * rng.uniform(200, 255, (n, 1, 1))).astype(np.uint8)
    return mnistm.blend(digits, mnistm.random_patches(load_photographs(), n, SIDE, rng)), labels


def load_photographs() -> list[NDArray[np.uint8]]:
    """Return the photographs (H×W×3, BGR), each at full, half and a third of its size: patches of three scales."""
    photographs = []
    for package, name in PHOTOGRAPHS:
        spec = find_spec(package)
        if spec is None or spec.origin is None:
            raise ProgramError(f"{package}: this Python package is not installed, the demo takes photographs from it")
        file = Path(spec.origin).parent / name
        image = cv2.imread(str(file), cv2.IMREAD_COLOR) if file.is_file() else None
        if image is None:
            raise ProgramError(f"{file}: expected a photograph here, inside the package {package}")
        for part in (1, 2, 3):
            size = (image.shape[1] // part, image.shape[0] // part)
            photographs.append(cv2.resize(image, size, interpolation=cv2.INTER_AREA))
    return photographs


def handwritten() -> Images:
    """Return scikit-learn's handwritten digits (1797×28×28, gray, ink bright), enlarged from 8×8."""
    from sklearn.datasets import load_digits  # slow to import, and only needed here

    bunch = load_digits()
    images = [cv2.resize(image, (SIDE, SIDE), interpolation=cv2.INTER_CUBIC) for image in bunch.images]
    return np.rint(np.clip(np.stack(images) * (255 / 16), 0, 255)).astype(np.uint8), bunch.target.astype(np.int64)
