"""Decide whether the folders of a tree are classes or domains, by what lies below them."""

import re
import shlex
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from latent_domains.common.arguments import FOLDERS_ARE_CLASSES
from latent_domains.common.program import ProgramError
from latent_domains.common.wording import some
from latent_domains.data.image_list import ClassTree, composed

PARTS = {"data", "image", "images", "img", "imgs", "jpegimages", "pics", "pictures"}
PARTS |= {"test", "testing", "train", "training", "val", "valid", "validation"}
"""Usual names of folders between a domain and its classes, in lower case."""


MASKS = {"annotation", "annotations", "ground_truth", "groundtruth", "gt", "label", "labels", "mask", "masks"}
MASKS |= {"segmentation", "segmentations"}
"""Usual names of folders that lie beside folders of pictures but contain no pictures to classify."""


@dataclass(frozen=True)
class Domains:
    """Folders at the place of classes that look like domains."""

    root: Path
    folders: tuple[Path, ...]
    classes: tuple[str, ...]
    """Names of the folders in them; if ``alike``, only names in two of them at least."""
    holders: tuple[Path, ...]
    """The folders that contain the class folders: the domains themselves, or folders in them."""
    alike: bool
    """Whether there are several that contain largely the same names."""
    sure: bool
    """False for a lone folder of any name that contains folders: it may be a class."""

    def error(self, instead: str, otherwise: str | None = None) -> ProgramError:
        """Return the error for a program that expected classes: what to do if they are domains, and if they are not.

        Folders that contain pictures and masks are classes whose masks are not pictures of them.
        """
        masks = [name for name in self.classes if _plain(name) in MASKS]
        pictures = [name for name in self.classes if name not in masks]
        if masks and len(pictures) == 1:
            first, named = self.folders[0], some(folder.name for folder in self.folders)
            link = shlex.join(["ln", "-s", str((first / pictures[0]).resolve()), f"DIR/{first.name}"])
            return ProgramError(
                f"{self.root}: its folders {named} hold {some(masks)} beside {pictures[0]}, which would be pictures, "
                f"too: make a folder DIR of links to {pictures[0]} alone, as by {link}"
            )
        folders, classes = some(str(folder.relative_to(self.root)) for folder in self.folders), some(self.classes)
        if len(self.folders) == 1:
            looks = f"folder {folders} holds the folders {classes}, so it looks like a domain, not a class"
        else:
            which = "same folders" if self.alike else "folders"
            looks = f"folders {folders} hold the {which} {classes}, so they look like domains, not classes"
        if not self.sure or (self.alike and self.folders == self.holders):
            looks += ", though both are possible"
        otherwise = f"for classes pass {FOLDERS_ARE_CLASSES}" if otherwise is None else otherwise
        return ProgramError(f"{self.root}: its {looks}: {'; '.join(filter(None, [instead, otherwise]))}")


def domains_in(tree: ClassTree) -> Domains | None:
    """Return the folders of a tree that look like domains, if there are some.

    One of three rules applies. Two or more contain largely the same names, and are at least half of the folders or have
    half of the images, since classes may contain folders, too. Or they contain the names of the folders beside them. Or
    one alone contains a level of folders, and is alone or has a name that no class has (images, train). Folders between
    ``tree.root`` and them are skipped.
    """
    top = place = _folders_of(tree)
    while not (found := _domains_among(place.folders)) and len(between := _between(place)) == 1:
        (place,) = between
    alike, sure = len(found) > 1, bool(found)
    if not found:
        found = between or ([place] if place is not top and len(place.folders) > 1 else [])
        sure = any(name.casefold() in PARTS for one in found for name in one.path.relative_to(tree.root).parts)
    if not found:
        return None
    held = [{_plain(name): name for name in _class_names(one)} for one in found]
    counts = Counter(key for names in held for key in names)
    classes = {key: name for names in reversed(held) for key, name in names.items() if not alike or counts[key] > 1}
    return Domains(
        tree.root,
        tuple(one.path for one in found),
        tuple(sorted(classes.values())),
        tuple(holder.path for one in found for holder in _holders(one)),
        alike,
        sure,
    )


def agree(names: Collection[str], others: Collection[str]) -> bool:
    """Say whether two collections of names are largely the same: two names at least, and half of the smaller one.

    Upper case, blanks, dashes and underscores make no difference.
    """
    return _agree(set(map(_plain, names)), set(map(_plain, others)))


@dataclass(eq=False)
class _Folder:
    path: Path
    images: int = 0
    """At any depth."""
    beside: int = 0
    """Images beside its folders."""
    inside: dict[str, "_Folder"] = field(default_factory=dict)
    """By name; folders without images are left out."""

    @property
    def folders(self) -> list["_Folder"]:
        """Folders in it; none if more than half of its images lie beside them."""
        return list(self.inside.values()) if 2 * self.beside <= self.images else []


def _folders_of(tree: ClassTree) -> _Folder:
    top = _Folder(tree.root)
    for each in tree.folders:
        for place, images in Counter(name.rpartition("/")[0] for name in each.found.images).items():
            folder = top
            folder.images += images
            for name in filter(None, [each.folder.name, *place.split("/")]):
                folder = folder.inside.setdefault(name, _Folder(folder.path / name))
                folder.images += images
            folder.beside += images
    return top


def _domains_among(folders: Sequence[_Folder]) -> list[_Folder]:
    """Return the folders that contain largely the same names as others.

    If these are few, return those that contain the names of the folders beside them.
    """
    names = {one: set(map(_plain, _class_names(one))) for one in folders}
    holding: dict[str, list[_Folder]] = {}
    for one in folders:
        for name in names[one]:
            holding.setdefault(name, []).append(one)

    def is_alike(one: _Folder) -> bool:
        shared = [name for name in names[one] if len(holding[name]) > 1]
        others = (other for name in shared for other in holding[name] if other is not one)
        return len(shared) > 1 and any(_agree(names[one], names[other]) for other in others)

    beside = {_plain(one.path.name) for one in folders}
    alike = [one for one in folders if is_alike(one)]
    return alike if _are_most(alike, folders) else [one for one in folders if _agree(names[one], beside)]


def _between(folder: _Folder) -> list[_Folder]:
    """Return the folders that are a level between a folder and the classes.

    That is a lone folder, or folders such as images/, train/, test/.
    """
    deep = [one for one in folder.folders if one.folders]
    lone, parts = len(folder.folders) == 1, all(one.path.name.casefold() in PARTS for one in deep)
    return deep if lone or (parts and _are_most(deep, folder.folders)) else []


def _holders(folder: _Folder) -> list[_Folder]:
    return [holder for one in _between(folder) for holder in _holders(one)] or [folder]


def _class_names(folder: _Folder) -> list[str]:
    return [one.path.name for holder in _holders(folder) for one in holder.folders]


def _are_most(some_of_them: Sequence[_Folder], folders: Sequence[_Folder]) -> bool:
    def half(size: Callable[[_Folder], int]) -> bool:
        return 2 * sum(map(size, some_of_them)) >= sum(map(size, folders))

    return half(lambda _: 1) or half(lambda folder: folder.images)


def _plain(name: str) -> str:
    return re.sub(r"[\s_-]+", "_", composed(name).casefold())


def _agree(names: set[str], others: set[str]) -> bool:
    return len(names & others) >= max(2, min(len(names), len(others)) / 2)
