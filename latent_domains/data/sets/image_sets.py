"""The LMDBs of Office-31, Office-Caltech-10 and PACS: one for each domain."""

import sys
from dataclasses import dataclass
from pathlib import Path

from latent_domains.common.markdown import table
from latent_domains.common.program import ProgramError
from latent_domains.data.image_datum import Format
from latent_domains.data.image_lmdb import plan_of_images
from latent_domains.data.lmdb_plans import PlannedLmdb
from latent_domains.data.sets import trees
from latent_domains.data.sets.published import ImageSet
from latent_domains.data.sets.trees import Tree
from latent_domains.data.sizes import SEEN, check_size, size_folder, stored_side


@dataclass(frozen=True)
class BuildOptions:
    """How the LMDBs are built."""

    seed: int = 0
    """Of the order of the records."""
    encoded: str | None = None
    """``jpg`` or ``png``: images are stored as such files; None: raw pixels."""
    jobs: int = 1
    """Threads that read and resize."""
    allow_incomplete: bool = False
    """Whether other images than the published ones are only a note on stderr."""
    image_size: int = SEEN
    """Side of what nets see of the stored images: if it is another than SEEN, they are in a folder of their own."""


def plans(image_set: ImageSet, images: Path, out: Path, options: BuildOptions) -> list[PlannedLmdb]:
    """Return a part for each domain under ``out``/SET; no image is read before its part is built.

    Raises ProgramError with a table of what is missing and extra in the folder ``images``, unless the options allow
    that; then a domain without images has no part.
    """
    tree = trees.read(images, image_set)
    _judge(image_set, tree, options)
    found = {domain: [] for domain in image_set.domains}
    for domain, classes in tree.images.items():
        found[domain] = [entry for entries in classes.values() for entry in entries]
    check_size(options.image_size)
    side = stored_side(options.image_size)
    name = image_set.name
    place = out / (name if options.image_size == SEEN else size_folder(name, options.image_size))
    if not any(found.values()):
        raise ProgramError(f"none of the images of {image_set.title} are there")
    return [
        plan_of_images(
            place / domain,
            entries,
            image_set.classes,
            Format((side, side), encoded=options.encoded),
            program=f"tools.get_data {image_set.name}",
            order=(options.seed, 200 + number),
            jobs=options.jobs,
            remedy="replace it, or remove it and pass --allow-incomplete to go on without it",
        )
        for number, (domain, entries) in enumerate(found.items())
        if entries
    ]


def _judge(image_set: ImageSet, tree: Tree, options: BuildOptions) -> None:
    """Report what differs from the published set: as an error or, if the options allow it, as a note."""
    for domain, inside in tree.domains.items():
        print(f"{domain}: {inside.found.counted()}", *inside.found.left_out(), sep="\n", file=sys.stderr)
    if not (differences := trees.differences(image_set, tree)):
        return
    published = sum(sum(classes.values()) for classes in image_set.counts.values())
    found = sum(len(entries) for classes in tree.images.values() for entries in classes.values())
    report = (
        f"{tree.root}: not {image_set.title} as published ({found} images of its classes, published {published}):\n"
        f"{table(('domain', 'class', 'found', 'published', 'remark'), differences)}"
    )
    if not options.allow_incomplete:
        raise ProgramError(f"{report}\nnothing was built; --allow-incomplete builds what is there")
    print(f"note: {report}", file=sys.stderr)
