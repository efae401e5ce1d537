"""An image set on disk, DOMAIN/CLASS/IMAGE or DOMAIN/images/CLASS/IMAGE, beside its published counts."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from latent_domains.common.program import ProgramError
from latent_domains.data.image_list import ClassFolder, ClassTree, Entry, visible_folders, walk_classes
from latent_domains.data.sets.published import ImageSet


@dataclass(frozen=True)
class Tree:
    """The images found."""

    root: Path
    """Folder that holds the domains' folders."""
    domains: dict[str, ClassTree] = field(default_factory=dict)
    """Domain → what the folders of its classes hold. What has no folder is not in it."""
    images: dict[str, dict[str, list[Entry]]] = field(default_factory=dict)
    """Domain → class → its images, sorted by path, named CLASS/IMAGE. What has no folder is not in it."""
    unknown: dict[str, dict[str, int]] = field(default_factory=dict)
    """Domain → folder that is no class's → images in it."""


def read(root: Path, image_set: ImageSet) -> Tree:
    """List the images of the domains' folders in ``root``. Hidden files and folders are passed over.

    Raises ProgramError if there are no such folders or several that could be meant, OSError if one cannot be read.
    """
    if not root.is_dir():
        raise ProgramError(f"{root}: no such folder, expected one that holds {', '.join(image_set.domains)}")
    tree = Tree(root)
    for folder in visible_folders(root):
        if (domain := image_set.canonical(folder.name)) in image_set.domains:
            if domain in tree.domains:
                _refuse_two(tree.domains[domain].root, folder, domain)
            found = _read_domain(folder, image_set)
            known = [one for one in found.folders if one.class_name in image_set.classes]
            strange = [one for one in found.folders if one not in known]
            tree.domains[domain] = replace(found, folders=tuple(known))
            tree.images[domain] = _images(known, image_set)
            tree.unknown[domain] = {
                one.folder.name: len(one.found.images)
                for one in strange
                if not image_set.is_of_larger_set(one.class_name)
            }
    if not tree.domains:
        raise ProgramError(f"{root}: found none of the folders {', '.join(image_set.domains)} in it")
    return tree


def _read_domain(folder: Path, image_set: ImageSet) -> ClassTree:
    """What the folders of a domain hold, in its folder ``images`` if there is one."""
    inside = folder / "images"
    folder = inside if inside.is_dir() else folder
    if not visible_folders(folder):
        return ClassTree(folder, (), ())
    return walk_classes(folder, lambda path: image_set.canonical(path.name))


def _images(known: Sequence[ClassFolder], image_set: ImageSet) -> dict[str, list[Entry]]:
    """Class → its images, in the order of the labels."""
    folders: dict[str, ClassFolder] = {}
    for one in known:
        if one.class_name in folders:
            _refuse_two(folders[one.class_name].folder, one.folder, one.class_name)
        folders[one.class_name] = one
    return {
        name: [Entry(f"{folders[name].folder}/{file}", f"{name}/{file}", label) for file in folders[name].found.images]
        for label, name in enumerate(image_set.classes)
        if name in folders
    }


def _refuse_two(first: Path, second: Path, meaning: str) -> None:
    raise ProgramError(f"{first} and {second} could both be {meaning}: expected only one of them")


def differences(image_set: ImageSet, tree: Tree) -> list[tuple[str, str, str, str, str]]:
    """Rows of domain, class, images found, images published, remark: for each class whose count differs.

    A domain without images has one row, and so has each folder of no class.
    """
    rows = []
    for domain, published in image_set.counts.items():
        images = tree.images.get(domain)
        if images is None or not any(images.values()):
            remark = "no such folder" if images is None else "no images in its class folders"
            rows.append((domain, "all classes", 0, sum(published.values()), remark))
        else:
            for name, count in published.items():
                surplus = len(images.get(name, ())) - count
                remark = f"{surplus} extra" if surplus > 0 else f"{-surplus} missing"
                if surplus:
                    rows.append((domain, name, count + surplus, count, remark))
        for folder, count in tree.unknown.get(domain, {}).items():
            rows.append((domain, folder, count, 0, "folder of no known class, left out"))
    return [(domain, name, str(found), str(count), remark) for domain, name, found, count, remark in rows]
