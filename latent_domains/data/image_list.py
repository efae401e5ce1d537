"""What goes into an LMDB: a list file as ``convert_imageset`` takes, or a tree of one folder a class."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from latent_domains.common.program import ProgramError

SUFFIXES = frozenset({".bmp", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"})
"""Files of a class folder that count as images, by the end of their name in lower case."""

_LABEL_LIMIT = 2**31
"""Datum.label is an int32."""


@dataclass(frozen=True)
class Entry:
    """One image to be stored."""

    file: Path
    name: str
    """As the list or the tree names it: the second part of the record's key."""
    label: int


def read_list(path: Path, root: Path) -> list[Entry]:
    """Read lines ``PATH LABEL``; PATH is relative to ``root`` and may hold spaces, blank lines are left out.

    Raises ProgramError naming the line that has no path or no whole number after the last blank.
    """
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise ProgramError(f"list {path}: {error.strerror}, expected a text file of lines 'PATH LABEL'") from error
    entries = []
    for number, line in enumerate(map(os.fsdecode, lines), 1):
        fields = line.strip().rsplit(maxsplit=1)
        if not fields:
            continue
        try:
            name, label = fields[0], int(fields[1])
        except (IndexError, ValueError) as error:
            raise ProgramError(f"list {path}, line {number}: found {line!r}, expected 'PATH LABEL'") from error
        if not -_LABEL_LIMIT <= label < _LABEL_LIMIT:
            raise ProgramError(f"list {path}, line {number}: label {label} does not fit into 32 bits")
        entries.append(Entry(root / name, name, label))
    if not entries:
        raise ProgramError(f"list {path}: no lines in it, expected lines 'PATH LABEL'")
    return entries


def read_classes(path: Path) -> list[str]:
    """Read the names of the classes, one a line in the order of their labels."""
    try:
        classes = [line.strip() for line in path.read_text().splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise ProgramError(f"classes {path}: {error}, expected a text file with a name in each line") from error
    if not classes or not all(classes) or len(set(classes)) != len(classes):
        raise ProgramError(f"classes {path}: expected one name in each line, none of them empty or twice")
    return classes


def class_files(folder: Path) -> tuple[list[Path], list[Path]]:
    """Images of a class folder, at any depth and sorted, and its other files. Hidden files and folders do not count."""
    files = [
        file
        for file in sorted(folder.rglob("*"))
        if not file.is_dir() and not any(part.startswith(".") for part in file.relative_to(folder).parts)
    ]
    images = [file for file in files if file.suffix.lower() in SUFFIXES]
    return images, [file for file in files if file.suffix.lower() not in SUFFIXES]


def read_tree(root: Path, classes: Sequence[str] | None = None) -> tuple[list[Entry], list[str], list[Path]]:
    """List the images of a tree ``root``/CLASS/…/IMAGE, sorted by class and path.

    Returns the entries, the names of the classes in the order of their labels (the sorted folder names, unless
    ``classes`` gives them), and the files that were left out because their names do not end like an image's or no class
    folder holds them. Hidden files and folders are passed over. Raises ProgramError if there are no class folders, no
    images in them, or folders that ``classes`` does not name.
    """
    try:
        visible = sorted(path for path in root.iterdir() if not path.name.startswith("."))
    except OSError as error:
        raise ProgramError(f"{root}: {error.strerror}, expected a folder with one folder for each class") from error
    folders = [path for path in visible if path.is_dir()]
    left_out = [path for path in visible if not path.is_dir()]
    if not folders:
        raise ProgramError(f"{root}: no folders in it, expected one for each class")
    names = list(classes) if classes is not None else [folder.name for folder in folders]
    strange = [folder.name for folder in folders if folder.name not in names]
    if strange:
        raise ProgramError(f"{root}: folders {', '.join(strange)} are not among the classes {', '.join(names)}")
    entries = []
    for folder in folders:
        label = names.index(folder.name)
        images, others = class_files(folder)
        entries += [Entry(file, str(file.relative_to(root)), label) for file in images]
        left_out += others
    if not entries:
        raise ProgramError(f"{root}: no images in its class folders (names ending in {' '.join(sorted(SUFFIXES))})")
    return entries, names, left_out


UNKNOWN = -1
"""The label of an image whose class nobody knows."""


def folder_entries(folder: Path) -> list[Entry]:
    """All images of a folder, at any depth and sorted, named by their paths in it; their label says unknown.

    Raises ProgramError if there are none.
    """
    if not folder.is_dir():
        found = "a file" if folder.exists() else "no such folder"
        raise ProgramError(f"{folder}: {found}, expected a folder of images")
    images, _ = class_files(folder)
    if not images:
        raise ProgramError(f"{folder}: no images in it (names ending in {' '.join(sorted(SUFFIXES))})")
    return [Entry(file, str(file.relative_to(folder)), UNKNOWN) for file in images]
