"""A class-folder tree of DomainNet's shape, or a smaller one: DOMAIN/CLASS/IMAGE.jpg, small pictures drawn by a seed.

python -m tests.scale.tree DIR --pictures 586575
"""

import argparse
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from latent_domains.common.arguments import natural, positive

DOMAINS = {
    "clipart": 48_129,
    "infograph": 51_605,
    "painting": 72_266,
    "quickdraw": 172_500,
    "real": 172_947,
    "sketch": 69_128,
}
"""Pictures of each domain of DomainNet."""

PICTURES = sum(DOMAINS.values())
CLASSES = 345
SIDE = 32
SPREAD = 0.6
"""Of the logarithm of a class's share; quickdraw has as many pictures of each class."""


def counts(pictures: int, seed: int) -> dict[str, NDArray[np.int64]]:
    """Pictures of each class in each domain, at least one; in all so many, up to rounding of the domains' shares."""
    found = {}
    for number, (domain, published) in enumerate(DOMAINS.items()):
        rng = np.random.default_rng([seed, number])
        shares = np.ones(CLASSES) if domain == "quickdraw" else rng.lognormal(0, SPREAD, CLASSES)
        further = max(0, round(pictures * published / PICTURES) - CLASSES)
        found[domain] = 1 + rng.multinomial(further, shares / shares.sum())
    return found


def plant(root: Path, pictures: int, seed: int) -> None:
    """Draw the tree into the new folder ``root``: a class is a pattern, a domain a tint, a picture noise on both."""
    of_domains = counts(pictures, seed)
    patterns = np.random.default_rng(seed).integers(0, 128, (CLASSES, 8, 8, 3), np.uint8)
    with tqdm(total=int(sum(map(np.sum, of_domains.values()))), desc="tree", unit="img") as bar:
        for number, (domain, of_classes) in enumerate(of_domains.items()):
            rng = np.random.default_rng([seed, 1 + number])
            tint = rng.integers(0, 64, 3, np.uint8)
            for label, count in enumerate(of_classes):
                folder = root / domain / f"class_{label:03d}"
                folder.mkdir(parents=True)
                pattern = tint + cv2.resize(patterns[label], (SIDE, SIDE), interpolation=cv2.INTER_NEAREST)
                for picture in range(count):
                    image = pattern + rng.integers(0, 48, pattern.shape, np.uint8)
                    data = cv2.imencode(".jpg", image)[1]
                    (folder / f"{domain}_{label:03d}_{picture:06d}.jpg").write_bytes(data.tobytes())
                bar.update(count)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.scale.tree", description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, metavar="DIR", help="new folder")
    parser.add_argument("--pictures", type=positive, default=PICTURES, metavar="N", help="default: %(default)s")
    parser.add_argument("--seed", type=natural, default=0, help="default: %(default)s")
    options = parser.parse_args()
    plant(options.folder, options.pictures, options.seed)


if __name__ == "__main__":
    main()
