"""An image set on disk, DOMAIN/CLASS/IMAGE or DOMAIN/images/CLASS/IMAGE, beside its published counts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from latent_domains.common.program import ProgramError
from latent_domains.data.image_list import Entry, Found, find_all, find_files, is_visible
from latent_domains.data.sets.published import ImageSet

DEPTH = 3
"""Levels of enclosing folders (``Raw images/kfold``, ``domain_adaptation_images``) that may lie around the domains."""


@dataclass(frozen=True)
class Tree:
    """The images found."""

    root: Path
    """Folder that holds the domains' folders."""
    images: dict[str, dict[str, list[Entry]]] = field(default_factory=dict)
    """Domain → class → its images, sorted by path, named CLASS/IMAGE. What has no folder is not in it."""
    unknown: dict[str, dict[str, int]] = field(default_factory=dict)
    """Domain → folder that is no class's → images in it."""
    found: dict[str, Found] = field(default_factory=dict)
    """Domain → all that its classes' folders hold; files beside them are among the others."""


def read(folder: Path, image_set: ImageSet) -> Tree:
    """Find the domains' folders in ``folder`` and list their images. Hidden files and folders are passed over.

    Raises ProgramError if there are no such folders or several that could be meant, OSError if one cannot be read.
    """
    tree = Tree(_root(folder, image_set))
    for domain, folders in _domain_folders(tree.root, image_set).items():
        level = _class_level(_only(folders, domain), image_set)
        classes, strange = _class_folders(level, image_set)
        found = tree.found[domain] = Found()
        if strange:
            tree.unknown[domain] = {folder.name: len(find_files(folder).images) for folder in strange}
        images = tree.images[domain] = {}
        of_class = {_only(classes[name], name): name for name in image_set.classes if name in classes}
        for class_folder, inside in find_all(list(of_class)).items():
            name = of_class[class_folder]
            label = image_set.classes.index(name)
            images[name] = [Entry(f"{class_folder}/{file}", f"{name}/{file}", label) for file in inside.images]
            found.add(inside)
        found.others += sorted(path for path in level.iterdir() if is_visible(path.name) and not path.is_dir())
    return tree


def _root(folder: Path, image_set: ImageSet) -> Path:
    """``folder`` if it holds a domain, or the one folder below it that holds all of them, or else some of them.

    A domain's folder with no folder in it makes none a root unless there is nothing else.
    """
    if not folder.is_dir():
        raise ProgramError(f"{folder}: no such folder, expected one that holds {', '.join(image_set.domains)}")
    here = [domain for folders in _domain_folders(folder, image_set).values() for domain in folders]
    if any(map(_folders, here)):
        return folder
    candidates = list(_candidates(folder, image_set, DEPTH))
    complete = [root for root in candidates if len(_domain_folders(root, image_set)) == len(image_set.domains)]
    found = complete or candidates or ([folder] if here else [])
    if not found:
        raise ProgramError(
            f"{folder}: none of the folders {', '.join(image_set.domains)} in it, nor {DEPTH} levels below"
        )
    return _only(found, f"the folder of {image_set.title}")


def _candidates(folder: Path, image_set: ImageSet, depth: int) -> Iterator[Path]:
    """Yield the folders below ``folder`` that hold a domain; nothing is looked for below those."""
    for inside in _folders(folder):
        if _domain_folders(inside, image_set):
            yield inside
        elif depth > 1:
            yield from _candidates(inside, image_set, depth - 1)


def _domain_folders(root: Path, image_set: ImageSet) -> dict[str, list[Path]]:
    """Domain → folders in ``root`` that bear its name, in one spelling or another."""
    found: dict[str, list[Path]] = {}
    for folder in _folders(root):
        if (domain := image_set.canonical(folder.name)) in image_set.domains:
            found.setdefault(domain, []).append(folder)
    return found


def _class_level(folder: Path, image_set: ImageSet) -> Path:
    """Folder of a domain's class folders: itself or, with no images of a class in it, its ``images``."""
    folders = _folders(folder)
    below = next((inside for inside in folders if inside.name.lower() == "images"), None)
    if below is None:
        return folder
    classes = [inside for inside in folders if image_set.canonical(inside.name) in image_set.classes]
    return folder if any(find_files(inside).images for inside in classes) else below


def _class_folders(level: Path, image_set: ImageSet) -> tuple[dict[str, list[Path]], list[Path]]:
    """Class → folders that bear its name, in one spelling or another; and the folders of no class."""
    classes: dict[str, list[Path]] = {}
    strange = []
    for folder in _folders(level):
        if (name := image_set.canonical(folder.name)) in image_set.classes:
            classes.setdefault(name, []).append(folder)
        elif not image_set.is_of_larger_set(folder.name):
            strange.append(folder)
    return classes, strange


def _only(folders: list[Path], meaning: str) -> Path:
    if len(folders) > 1:
        raise ProgramError(f"{folders[0]} and {folders[1]} could both be {meaning}: expected only one of them")
    return folders[0]


def _folders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if is_visible(path.name) and path.is_dir())


@dataclass(frozen=True)
class Difference:
    """One line of the table."""

    place: str
    """Domain or list file."""
    name: str
    """Class, or all of them."""
    found: int
    published: int
    remark: str = ""
    """What else is to be said; by default how many are missing or extra."""

    def cells(self) -> tuple[str, ...]:
        """The line's five cells."""
        surplus = self.found - self.published
        remark = self.remark or (f"{surplus} extra" if surplus > 0 else f"{-surplus} missing")
        return self.place, self.name, str(self.found), str(self.published), remark


def differences(image_set: ImageSet, tree: Tree) -> list[Difference]:
    """Return a line for each domain without images, each class whose count differs, and each folder of no class."""
    lines = []
    for domain, published in image_set.counts.items():
        images = tree.images.get(domain)
        if images is None or not any(images.values()):
            remark = "no such folder" if images is None else "no images in its class folders"
            lines.append(Difference(domain, "all classes", 0, sum(published.values()), remark))
        else:
            found = {name: len(images.get(name, ())) for name in published}
            lines.extend(Difference(domain, name, found[name], n) for name, n in published.items() if found[name] != n)
        for folder, count in tree.unknown.get(domain, {}).items():
            lines.append(Difference(domain, folder, count, 0, "folder of no known class, left out"))
    return lines


def table(lines: Sequence[Difference]) -> str:
    """Return the lines under a heading, in columns; numbers stand at the right."""
    rows = [("", "", "found", "published", ""), *(line.cells() for line in lines)]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return "\n".join(
        f"  {place:{widths[0]}}  {name:{widths[1]}}  {found:>{widths[2]}}  {published:>{widths[3]}}  {remark}".rstrip()
        for place, name, found, published, remark in rows
    )
