"""PACS's official lists: which of its images are for training, which for validation, and all of them for testing.

A list DOMAIN_SPLIT_kfold.txt holds lines ``DOMAIN/CLASS/IMAGE LABEL``; its labels count from 1.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from pathlib import Path

from latent_domains.common.program import ProgramError
from latent_domains.data.image_list import Entry, read_list
from latent_domains.data.sets.published import PACS, pacs_split_counts
from latent_domains.data.sets.trees import Difference, Tree

SPLITS = ("train", "crossval", "test")


def read(folder: Path, tree: Tree) -> tuple[dict[str, list[Entry]], list[Difference]]:
    """Look up the listed images in ``tree``; return DOMAIN_SPLIT → its images, and how they differ from the published.

    A list that is not there has no images. Raises ProgramError naming the list and the image whose line is not of this
    form, whose label is not its class's, or which the list names twice.
    """
    if not folder.is_dir():
        raise ProgramError(f"{folder}: no such folder, expected one of lists such as photo_train_kfold.txt")
    splits: dict[str, list[Entry]] = {}
    differences: list[Difference] = []
    for domain in PACS.domains:
        known = {entry.name: entry for entries in tree.images.get(domain, {}).values() for entry in entries}
        for split in SPLITS:
            published = pacs_split_counts(domain, split)
            file = folder / f"{domain}_{split}_kfold.txt"
            names: list[str] = []
            if file.is_file():
                names = _read_names(file, domain)
                differences.extend(_differences(file.name, names, known, published))
            else:
                differences.append(Difference(file.name, "all classes", 0, sum(published.values()), "no such list"))
            splits[f"{domain}_{split}"] = [known[name] for name in names if name in known]
    return splits, differences


def _read_names(file: Path, domain: str) -> list[str]:
    """Return the names CLASS/IMAGE in a domain's list, each once and labelled as its class is."""
    names: dict[str, None] = {}
    for entry in read_list(file, Path()):
        where, _, name = entry.name.partition("/")
        class_name, _, image = name.partition("/")
        if where != domain or class_name not in PACS.classes or not image:
            raise ProgramError(f"list {file}: found {entry.name!r}, expected {domain}/CLASS/IMAGE")
        label = 1 + PACS.classes.index(class_name)
        if entry.label != label:
            raise ProgramError(f"list {file}: {entry.name} has label {entry.label}, expected {label} for {class_name}")
        if name in names:
            raise ProgramError(f"list {file}: {entry.name} stands in it twice")
        names[name] = None
    return list(names)


def _differences(
    place: str, names: Sequence[str], known: Container[str], published: Mapping[str, int]
) -> Iterator[Difference]:
    """Yield a line for each class of which the list holds another number or names images that are not there."""
    for class_name, count in published.items():
        listed = [name for name in names if name.startswith(f"{class_name}/")]
        absent = [name for name in listed if name not in known]
        if not absent and len(listed) == count:
            continue
        remark = f"{len(listed)} listed, {len(absent)} of them not there, such as {absent[0]}" if absent else ""
        yield Difference(place, class_name, len(listed) - len(absent), count, remark)
