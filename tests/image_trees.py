"""Trees of image files in the shapes that archives unpack to, and PACS's lists."""

from collections.abc import Iterable, Mapping
from itertools import cycle, islice
from pathlib import Path

from latent_domains.data.sets.published import PACS, ImageSet, pacs_split_counts


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


def write_lists(folder: Path, tree: Path) -> Path:
    """Write PACS's twelve lists of the images in a tree of any size; the first ones of a class are for validation."""
    folder.mkdir(parents=True)
    for domain in PACS.domains:
        lines: dict[str, list[str]] = {"train": [], "crossval": [], "test": []}
        crossval = pacs_split_counts(domain, "crossval")
        for label, name in enumerate(PACS.classes, 1):
            files = sorted((tree / domain / name).iterdir())
            first = crossval[name] if len(files) == PACS.counts[domain][name] else 1
            of_class = [f"{domain}/{name}/{file.name} {label}" for file in files]
            lines["crossval"] += of_class[:first]
            lines["train"] += of_class[first:]
            lines["test"] += of_class
        for split, of_split in lines.items():
            (folder / f"{domain}_{split}_kfold.txt").write_text("".join(f"{line}\n" for line in of_split))
    return folder
