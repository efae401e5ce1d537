"""Lists of images: from a list file as ``convert_imageset`` takes, or from a tree with one folder per class."""

import os
import re
import stat
import unicodedata
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from latent_domains.common.files import expect_file, read_bytes, read_text
from latent_domains.common.program import ProgramError
from latent_domains.common.wording import count_of, harmless, some

SUFFIXES = frozenset({".bmp", ".gif", ".jfif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"})
"""Endings, in lower case, of file names that count as images in a class folder."""

_LINE = re.compile(r"(.*\S)\s+([+-]?[0-9]{1,1000})\s*", re.ASCII | re.DOTALL)
"""A line of a list: a path, which may begin with blanks, and a label."""

_LABELS = range(-(2**31), 2**31)
"""Labels that fit into a Datum: ``convert_imageset`` stores larger ones as other labels, without a message."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One image to be stored. There may be a million: Path objects would take three times the memory."""

    path: str
    name: str
    """Its name in the list or the tree: the second part of the record's key."""
    label: int

    @property
    def file(self) -> Path:
        return Path(self.path)


def size(file: str | Path) -> int | None:
    """Return the size of a file in bytes; None if it is not a regular file, or cannot be reached."""
    try:
        status = os.stat(file)  # noqa: PTH116
    except OSError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def read_list(path: Path, root: Path) -> list[Entry]:
    """Read lines ``PATH LABEL``; PATH is relative to ``root``, may begin with blanks and contain some.

    Skips blank lines. The label follows the last blank and must fit into a Datum. Refuses lines with several labels.
    """
    expect_file(path, "a text file of lines 'PATH LABEL'", missing_ok=True)
    try:
        lines = read_bytes(path).removeprefix(BOM_UTF8).splitlines()
    except OSError as error:
        raise ProgramError(f"list {path}: {error.strerror}, expected a text file of lines 'PATH LABEL'") from error
    entries = []
    for number, line in enumerate(map(os.fsdecode, lines), 1):
        if not line.strip():
            continue
        fields = _LINE.fullmatch(line)
        if fields is None or int(fields[2]) not in _LABELS:
            raise ProgramError(
                f"list {path}, line {number}: found {line!r}, expected 'PATH LABEL', the label a whole number from "
                f"{_LABELS[0]} to {_LABELS[-1]}"
            )
        if _LINE.fullmatch(fields[1]) and not (root / fields[1]).exists():
            raise ProgramError(
                f"list {path}, line {number}: found {line!r} and no picture {fields[1]!r}, expected one label: a "
                "Datum has one"
            )
        entries.append(Entry(str(root / fields[1]), fields[1], int(fields[2])))
    if not entries:
        raise ProgramError(f"list {path}: no lines in it, expected lines 'PATH LABEL'")
    return entries


def read_classes(path: Path) -> list[str]:
    """Read the names of the classes, one per line in the order of their labels."""
    expect_file(path, "a text file with a name in each line", missing_ok=True)
    try:
        classes = [composed(line.strip()) for line in read_text(path, "utf-8-sig").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise ProgramError(f"classes {path}: {error}, expected a text file with a name in each line") from error
    if not classes or not all(classes) or len(set(classes)) != len(classes):
        raise ProgramError(f"classes {path}: expected one name in each line, none of them empty or twice")
    return classes


def composed(name: str) -> str:
    """Return a class's name in NFC. Archives packed on a Mac spell é as e and an accent, and mean the same class."""
    return unicodedata.normalize("NFC", name)


def class_of(folder: Path) -> str:
    """Return the class that a folder names. Refuses a name that does not fit into one line of text."""
    name = folder.name
    # Control characters, half characters of UTF-16 (which stand for bytes that are no UTF-8), and ends of lines.
    if name != name.strip() or {"Cc", "Cs", "Zl", "Zp"}.intersection(map(unicodedata.category, name)):
        raise ProgramError(
            f"{folder.parent}: the class folder {name!r} has a name that no text file can hold: rename it"
        )
    return composed(name)


def in_order(classes: Iterable[str]) -> list[str]:
    """Return each class once: sorted as numbers if all names are numbers, else as texts."""
    names = set(classes)
    numbered = all(re.fullmatch("[0-9]{1,18}", name) for name in names)
    return sorted(names, key=lambda name: (int(name) if numbered else 0, name))


@dataclass
class Found:
    """The files of a folder, at any depth, without hidden files and folders."""

    images: list[str] = field(default_factory=list)
    """Their paths relative to the folder."""
    others: list[Path] = field(default_factory=list)
    """Files that are not images by the end of their name, or belong to no class."""
    unread: dict[Path, str] = field(default_factory=dict)
    """Folders that were not read, and why."""

    def counted(self) -> str:
        """Return the number of images and of all files, in words."""
        number = len(self.images)
        return f"{count_of(number, 'image')} of {count_of(number + len(self.others), 'file')}"

    def left_out(self) -> list[str]:
        """Describe what is not used, one line each. Long lists of names are cut; the number is always given."""
        lines = []
        if self.unread:
            lines.append("not read: " + some(f"{printable(path)} ({why})" for path, why in self.unread.items()))
        if self.others:
            number = count_of(len(self.others), "file")
            lines.append(
                f"left out {number} (no image by name, or in no class folder): {some(map(printable, self.others), 1)}"
            )
        return lines


def printable(file: Path) -> str:
    """Return a file's name as a terminal can print it, whatever its bytes are."""
    return harmless(os.fsencode(file).decode(errors="replace"))


def is_visible(name: str) -> bool:
    """Say whether a file or a folder of this name counts.

    Archives packed on a Mac contain a hidden tree without pictures. A Synology store keeps small copies of all pictures
    in folders called @eaDir.
    """
    return not name.startswith(".") and name not in ("__MACOSX", "@eaDir")


def visible_folders(root: Path) -> list[Path]:
    """Return the folders in a folder, sorted. Raises OSError if it cannot be read."""
    return sorted(path for path in root.iterdir() if is_visible(path.name) and path.is_dir())


def find_files(folder: Path) -> Found:
    """Return the files of a folder, at any depth and sorted.

    It follows links to folders, but reads each folder only once.
    """
    found = Found()
    seen = set(map(str, folder.resolve().parents))

    def add_unread(error: OSError) -> None:
        found.unread[Path(error.filename)] = error.strerror or str(error)

    for place, folders, files in os.walk(folder, onerror=add_unread, followlinks=True):
        path, real = Path(place), os.path.realpath(place)
        if real in seen:
            found.unread[path] = "a link to a folder that is read already, or that holds it"
            folders.clear()
            continue
        seen.add(real)
        folders[:] = sorted(filter(is_visible, folders))
        below = "" if path == folder else f"{path.relative_to(folder)}/"
        for name in filter(is_visible, files):
            if is_image(name):
                found.images.append(below + name)
            else:
                found.others.append(path / name)
    found.images.sort(key=lambda name: name.split("/"))  # as Paths are sorted
    found.others.sort()
    return found


def is_image(name: str) -> bool:
    """Say whether a file name is that of an image."""
    return os.path.splitext(name)[1].lower() in SUFFIXES  # noqa: PTH122


@dataclass(frozen=True)
class ClassFolder:
    """A folder of one class's images."""

    class_name: str
    folder: Path
    found: Found


@dataclass(frozen=True)
class ClassTree:
    """A folder with at least one folder for each class; two folders may be of one class."""

    root: Path
    folders: tuple[ClassFolder, ...] = ()
    beside: tuple[Path, ...] = ()
    """Files beside the folders."""

    @property
    def class_names(self) -> list[str]:
        """Names of the classes, in their order."""
        return in_order(folder.class_name for folder in self.folders)

    @property
    def found(self) -> Found:
        """All that the folders contain; files beside them are among the others."""
        found = Found(others=list(self.beside))
        for folder in self.folders:
            found.images += folder.found.images
            found.others += folder.found.others
            found.unread |= folder.found.unread
        return found

    def of_classes(self, classes: Sequence[str]) -> "ClassTree":
        """Return the tree without the folders of other classes."""
        return replace(self, folders=tuple(folder for folder in self.folders if folder.class_name in classes))

    def entries(self, classes: Sequence[str]) -> list[Entry]:
        """Return the images, named FOLDER/IMAGE, sorted by folder and path; labels are indices into ``classes``."""
        return [
            Entry(f"{each.folder}/{image}", f"{each.folder.name}/{image}", classes.index(each.class_name))
            for each in self.folders
            for image in each.found.images
        ]


def walk_classes(root: Path, name_of: Callable[[Path], str] = class_of) -> ClassTree:
    """List the contents of the folders in ``root``, except hidden ones; ``name_of`` returns the class of a folder."""
    try:
        folders = visible_folders(root)
        beside = sorted(path for path in root.iterdir() if is_visible(path.name) and not path.is_dir())
    except OSError as error:
        raise ProgramError(f"{root}: {error.strerror}, expected a folder with one folder for each class") from error
    if not folders:
        raise ProgramError(f"{root}: no folders in it, expected one for each class")
    names = [name_of(folder) for folder in folders]
    found = (ClassFolder(name, folder, find_files(folder)) for name, folder in zip(names, folders, strict=True))
    return ClassTree(root, tuple(found), tuple(beside))


def read_class_tree(root: Path) -> ClassTree:
    """List the images of a tree ``root``/CLASS/…/IMAGE.

    Refuses a tree without images, and names of folders that do not fit into one line of text.
    """
    tree = walk_classes(root)
    if not (found := tree.found).images:
        raise _no_images(root, "no images in its class folders", found)
    return tree


def _no_images(folder: Path, what: str, found: Found) -> ProgramError:
    return ProgramError(
        "; ".join([f"{folder}: {what} (names ending in {' '.join(sorted(SUFFIXES))})", *found.left_out()])
    )


UNKNOWN = -1
"""The label of an image of unknown class."""


def folder_entries(folder: Path) -> tuple[list[Entry], Found]:
    """Return all images of a folder, at any depth and sorted, with the label UNKNOWN, and all files that were found.

    Each image is named by its path in the folder. If ``folder`` is a file, it is one image, whatever its name is.
    """
    if folder.is_file():
        return [Entry(str(folder), folder.name, UNKNOWN)], Found([folder.name])
    if not folder.is_dir():
        found = "no regular file" if folder.exists() else "no such folder"
        raise ProgramError(f"{folder}: {found}, expected a folder of images, or an image")
    found = find_files(folder)
    if not found.images:
        raise _no_images(folder, "no images in it", found)
    return [Entry(f"{folder}/{name}", name, UNKNOWN) for name in found.images], found
