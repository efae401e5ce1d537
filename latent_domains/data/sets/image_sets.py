"""The LMDBs of Office-31, Office-Caltech-10 and PACS: one for each domain, or for each of PACS's official lists."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from latent_domains.common.program import ProgramError
from latent_domains.data.image_datum import Format
from latent_domains.data.image_list import Entry
from latent_domains.data.image_part import image_part
from latent_domains.data.parts import Part
from latent_domains.data.sets import counts, pacs_splits, trees
from latent_domains.data.sets.counts import Difference
from latent_domains.data.sets.published import PACS, ImageSet
from latent_domains.data.sets.trees import Tree

SIZE = (256, 256)
"""Height and width of the stored images."""


@dataclass(frozen=True)
class Settings:
    """How the LMDBs are built."""

    seed: int = 0
    """Of the order of the records."""
    encoded: str | None = None
    """``jpg`` or ``png``: images are stored as such files; None: raw pixels."""
    jobs: int = 1
    """Threads that read and resize."""
    allow_incomplete: bool = False
    """Whether other images than the published ones are only a note on stderr."""


def parts(image_set: ImageSet, images: Path, out: Path, settings: Settings) -> list[Part]:
    """Return a part for each domain under ``out``/SET; no image is read before its part is built.

    Raises ProgramError with a table of what is missing and extra in the folder ``images``, unless the settings allow
    that; then a domain without images has no part.
    """
    tree = trees.read(images, image_set)
    _judge(image_set, tree, counts.differences(image_set, tree), settings)
    found = {domain: [] for domain in image_set.domains}
    for domain, classes in tree.images.items():
        found[domain] = [entry for entries in classes.values() for entry in entries]
    return _parts(image_set, found, out / image_set.name, settings)


def pacs_split_parts(images: Path, lists: Path, out: Path, settings: Settings) -> list[Part]:
    """Return a part for each of PACS's lists in the folder ``lists``, under ``out``/pacs_splits; else as ``parts``."""
    tree = trees.read(images, PACS)
    splits, differences = pacs_splits.read(lists, tree)
    _judge(PACS, tree, [*counts.differences(PACS, tree), *differences], settings)
    return _parts(PACS, splits, out / "pacs_splits", settings)


def _judge(image_set: ImageSet, tree: Tree, differences: Sequence[Difference], settings: Settings) -> None:
    """Report what differs from the published set: as an error or, if the settings allow it, as a note."""
    if tree.left_out:
        files = "1 file" if len(tree.left_out) == 1 else f"{len(tree.left_out)} files"
        print(f"left out {files} that are no images by name, such as {tree.left_out[0]}", file=sys.stderr)
    if not differences:
        return
    published = sum(sum(classes.values()) for classes in image_set.counts.values())
    found = sum(len(entries) for classes in tree.images.values() for entries in classes.values())
    report = (
        f"{tree.root}: not {image_set.title} as published ({found} images of its classes, published {published}):\n"
        f"{counts.table(differences)}"
    )
    if not settings.allow_incomplete:
        raise ProgramError(f"{report}\nnothing was built; --allow-incomplete builds what is there")
    print(f"note: {report}", file=sys.stderr)


def _parts(image_set: ImageSet, found: Mapping[str, Sequence[Entry]], folder: Path, settings: Settings) -> list[Part]:
    if not any(found.values()):
        raise ProgramError(f"none of the images of {image_set.title} are there")
    return [
        _part(image_set, folder / name, entries, (settings.seed, 200 + number), settings)
        for number, (name, entries) in enumerate(found.items())
        if entries
    ]


def _part(
    image_set: ImageSet, path: Path, entries: Sequence[Entry], order: tuple[int, ...], settings: Settings
) -> Part:
    return image_part(
        path,
        entries,
        image_set.classes,
        Format(SIZE, encoded=settings.encoded),
        program=f"tools.get_data {image_set.name}",
        order=order,
        jobs=settings.jobs,
        remedy="replace it, or remove it and pass --allow-incomplete to go on without it",
    )
