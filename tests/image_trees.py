"""Trees of image files in the shapes that archives unpack to."""

from collections.abc import Iterable, Mapping
from itertools import cycle, islice
from pathlib import Path

from latent_domains.data.sets.published import ImageSet


def plant(
    root: Path, counts: Mapping[str, Mapping[str, int]], between: str = "", pictures: Iterable[Path] = ()
) -> Path:
    """Make ``root``/DOMAIN/``between``/CLASS with that many links to the pictures in turn, or else empty files."""
    originals = cycle(list(pictures) or [None])
    for domain, classes in counts.items():
        for name, count in classes.items():
            folder = root / domain / between / name
            folder.mkdir(parents=True)
            for number, original in enumerate(islice(originals, count), 1):
                file = folder / f"pic_{number:04d}.jpg"
                file.touch() if original is None else file.symlink_to(original)
    return root


def scaled(image_set: ImageSet, count: int) -> dict[str, dict[str, int]]:
    """The set's domains and classes with ``count`` images in each."""
    return {domain: dict.fromkeys(image_set.classes, count) for domain in image_set.domains}
