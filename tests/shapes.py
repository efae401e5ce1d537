"""Class-folder trees of small pictures: three shapes, in another colour and on another ground in each domain."""

from collections.abc import Iterable
from pathlib import Path

import cv2
import numpy as np

CLASSES = ("cross", "disc", "square")

LOOKS = {
    "night": ((20, 10, 10), (250, 220, 90)),
    "day": ((240, 240, 230), (30, 60, 160)),
    "dusk": ((120, 90, 140), (20, 20, 20)),
}
"""Domain → colours of ground and shape."""


def picture(shape: str, look: str, seed: int) -> np.ndarray:
    """A 40×36 picture (H×W×3, BGR) of a shape somewhere in its middle."""
    rng = np.random.default_rng(seed)
    ground, colour = LOOKS[look]
    image = np.full((40, 36, 3), ground, np.uint8)
    x, y = (int(value) for value in rng.integers(14, 22, 2))
    size = int(rng.integers(6, 10))
    if shape == "disc":
        cv2.circle(image, (x, y), size, colour, -1)
    elif shape == "square":
        cv2.rectangle(image, (x - size, y - size), (x + size, y + size), colour, 2)
    else:
        cv2.line(image, (x - size, y), (x + size, y), colour, 3)
        cv2.line(image, (x, y - size), (x, y + size), colour, 3)
    return cv2.add(image, rng.integers(0, 12, image.shape).astype(np.uint8))


def plant_domain(folder: Path, look: str, each: int = 6) -> Path:
    """Make ``folder``/CLASS/N.png with ``each`` pictures of every class."""
    for label, shape in enumerate(CLASSES):
        (folder / shape).mkdir(parents=True)
        for number in range(each):
            seed = 1000 * list(LOOKS).index(look) + 100 * label + number
            cv2.imwrite(str(folder / shape / f"{number}.png"), picture(shape, look, seed))
    return folder


def mix_domains(domains: Iterable[Path], mixed: Path) -> Path:
    """Make ``mixed``/CLASS/DOMAIN_N.png: links to the pictures of all ``domains``."""
    for domain in domains:
        for shape in CLASSES:
            (mixed / shape).mkdir(parents=True, exist_ok=True)
            for file in (domain / shape).iterdir():
                (mixed / shape / f"{domain.name}_{file.name}").symlink_to(file)
    return mixed
