"""What the folders of a tree are: classes or, as what lies below them says, domains that hold the classes."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from latent_domains.common.arguments import FOLDERS_ARE_CLASSES
from latent_domains.common.program import ProgramError
from latent_domains.common.wording import some
from latent_domains.data.image_list import ClassFolder, ClassTree, composed

PARTS = {"data", "image", "images", "img", "imgs", "jpegimages", "pics", "pictures"}
PARTS |= {"test", "testing", "train", "training", "val", "valid", "validation"}
"""What folders between a domain and its classes are called, in lower case."""


@dataclass(frozen=True)
class Domains:
    """Folders at the place of classes that look like domains."""

    root: Path
    folders: tuple[Path, ...]
    classes: tuple[str, ...]
    """Names of folders that they hold: if they are alike, those that two of them hold at least."""
    holders: tuple[Path, ...]
    """The folders whose folders are the classes: they, or others in them."""
    alike: bool
    """Whether they are several that hold largely the same names."""
    sure: bool
    """Not so for a lone folder of any name that holds folders: it may be a class."""

    def error(self, instead: str, otherwise: str = f"for classes pass {FOLDERS_ARE_CLASSES}") -> ProgramError:
        """The error for the program that took them for classes: what is to be done if they are domains, and if not."""
        folders, classes = some(str(folder.relative_to(self.root)) for folder in self.folders), some(self.classes)
        if len(self.folders) == 1:
            looks = f"folder {folders} holds the folders {classes}, so it looks like a domain, not a class"
        else:
            which = "same folders" if self.alike else "folders"
            looks = f"folders {folders} hold the {which} {classes}, so they look like domains, not classes"
        if not self.sure or (self.alike and self.folders == self.holders):
            looks += ", though both are possible"
        return ProgramError(f"{self.root}: its {looks}: {'; '.join(filter(None, [instead, otherwise]))}")


def domains_in(tree: ClassTree) -> Domains | None:
    """The folders of a tree that look like domains, if there are some.

    They are two or more that hold largely the same names, or such as images/ and train/ that hold folders, and at least
    half of the folders or of the images: classes may have folders, too. Or a lone one holds several folders.
    """
    folders = [each for each in tree.folders if each.found.images]
    holders = {
        each.folder: _holders(each.folder, [image.split("/") for image in each.found.images]) for each in folders
    }
    held = {
        folder: {_plain(name): name for names in inside.values() for name in names}
        for folder, inside in holders.items()
    }
    deep = [each for each in folders if len(held[each.folder]) > 1]
    alike = [one for one in deep if any(agree(held[one.folder], held[other.folder]) for other in deep if other != one)]
    parts = [one for one in deep if one.folder.name.casefold() in PARTS or len(folders) == 1]
    found = next((some_of_them for some_of_them in (alike, parts) if _are_most(some_of_them, folders)), [])
    if not found:
        return None
    domains = tuple(each.folder for each in found)
    counts = Counter(key for folder in domains for key in held[folder])
    least = 2 if found is alike else 1
    classes = {key: name for folder in domains for key, name in held[folder].items() if counts[key] >= least}
    places = tuple(holder for folder in domains for holder in holders[folder])
    named = {part.casefold() for place in places for part in place.relative_to(tree.root).parts}
    sure = found is alike or not named.isdisjoint(PARTS)
    return Domains(tree.root, domains, tuple(sorted(classes.values())), places, found is alike, sure)


def agree(names: Collection[str], others: Collection[str]) -> bool:
    """Whether two collections of names are largely the same: two names at least, and half of the smaller one.

    Upper case, blanks, dashes and underscores make no difference.
    """
    one, other = set(map(_plain, names)), set(map(_plain, others))
    return len(one & other) >= max(2, min(len(one), len(other)) / 2)


def _holders(folder: Path, images: Iterable[Sequence[str]]) -> dict[Path, list[str]]:
    """The folders in one, or itself, that hold folders of its ``images`` (parts of paths), with the names of these.

    A lone folder is passed through, and such as images/, train/ and test/. None if most images lie beside folders.
    """
    below: dict[str, list[Sequence[str]]] = {}
    beside = 0
    for name, *rest in images:
        if rest:
            below.setdefault(name, []).append(rest)
        else:
            beside += 1
    if not below or beside > sum(map(len, below.values())):
        return {}
    deeper: dict[Path, list[str]] = {}
    if len(below) == 1 or all(name.casefold() in PARTS for name in below):
        for name, inside in below.items():
            deeper |= _holders(folder / name, inside)
    return deeper or {folder: sorted(below)}


def _are_most(some_of_them: Sequence[ClassFolder], folders: Sequence[ClassFolder]) -> bool:
    """Whether they are any, and half of the folders or of the images."""
    images = sum(len(each.found.images) for each in folders)
    theirs = sum(len(each.found.images) for each in some_of_them)
    return 0 < len(folders) <= 2 * len(some_of_them) or 0 < images <= 2 * theirs


def _plain(name: str) -> str:
    return re.sub(r"[\s_-]+", "_", composed(name).casefold())
