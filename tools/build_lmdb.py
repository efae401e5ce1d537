"""Build an LMDB for Caffe's Data layer from a list file or from a tree of one folder a class.

    python -m tools.build_lmdb list.txt data/photo --root images --resize 256x256
    python -m tools.build_lmdb images/photo data/photo --resize 256x256 --encoded jpg

A list has lines 'PATH LABEL', as convert_imageset reads them. In a tree the sorted folder names are the classes 0, 1,
and so on; if all names are numbers, they are sorted as numbers. OUT/classes.txt has the names.

The records are those of convert_imageset, byte for byte, with four exceptions. Transparent parts become white, and of
values of more than 8 bits those that the pictures use become black to white (--background, --range). The largest value
of a PGM or PPM becomes 255, whatever it is. An encoded picture that Caffe would read differently from raw pixels (gray,
an alpha channel, 16 bits, turned by its EXIF) is encoded again. A WebP is turned by its EXIF, and the first picture of
a GIF or an animated WebP is stored; convert_imageset with Debian 12's OpenCV (4.6) does not turn WebPs and leaves GIFs
and animated WebPs out.
"""

if __name__ == "__main__":
    from latent_domains.common.start import start

    start("tools.build_lmdb")

import argparse
import re
import shlex
from pathlib import Path

import numpy as np

from latent_domains.common.arguments import (
    FOLDERS_ARE_CLASSES,
    add_image_options,
    add_reading_options,
    add_tree_option,
    natural,
    program_parser,
)
from latent_domains.common.program import ProgramError
from latent_domains.common.wording import some
from latent_domains.data.folder_tree import domains_in
from latent_domains.data.image_datum import Format
from latent_domains.data.image_list import ClassTree, Found, read_class_tree, read_classes, read_list
from latent_domains.data.image_lmdb import build
from latent_domains.data.inspection import chosen_reading, copies, notes_on_labels


def _options() -> argparse.Namespace:
    parser = program_parser("tools.build_lmdb", __doc__)
    parser.add_argument("input", type=Path, help="list file, or folder with one folder per class")
    parser.add_argument("out", type=Path, help="LMDB folder to make")
    parser.add_argument(
        "--root", type=Path, metavar="DIR", help="folder of the list's paths (default: the current one)"
    )
    parser.add_argument(
        "--classes",
        type=Path,
        metavar="FILE",
        help="file with the names of the classes, one per line (default: the folders' names)",
    )
    add_tree_option(parser)
    parser.add_argument("--resize", type=_size, metavar="HxW", help="resize to this height and width (bilinear)")
    parser.add_argument("--gray", action="store_true", help="store one gray channel instead of B, G, R")
    parser.add_argument(
        "--encoded",
        choices=("jpg", "png"),
        help="store image files of this format, not raw pixels; without --resize and --gray, keep files of this format "
        "unchanged if they are upright, with B, G, R of 8 bits; encode all others again",
    )
    parser.add_argument("--seed", type=natural, default=0, help="seed of the order of the records (default: 0)")
    parser.add_argument("--no-shuffle", action="store_true", help="keep the order of the list or tree")
    parser.add_argument(
        "--skip-unreadable", action="store_true", help="skip unreadable images, and print their names and number"
    )
    parser.add_argument("--force", action="store_true", help="replace OUT if it exists")
    add_image_options(parser)
    add_reading_options(parser)
    return parser.parse_args()


def _size(text: str) -> tuple[int, int]:
    match = re.fullmatch("([1-9][0-9]{0,4})x([1-9][0-9]{0,4})", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r}, expected HEIGHTxWIDTH in pixels, such as 256x256")
    return int(match[1]), int(match[2])


def _is_other(name: str, label: int) -> bool:
    """Say whether a class's name is a number other than its label."""
    return bool(re.fullmatch("[0-9]{1,18}", name)) and int(name) != label


def _check_level(tree: ClassTree, out: Path) -> None:
    """Raise ProgramError if the tree's folders look like domains; print a note if its lone folder may be one."""
    if found := domains_in(tree):
        command = shlex.join(["python", "-m", "tools.build_lmdb", str(found.holders[0]), str(out)])
        if found.sure:
            raise found.error(f"build an LMDB of each, as in {command}")
        name = found.folders[0].relative_to(tree.root)
        print(f"note: {name} counts as a class; if its folders {some(found.classes)} are the classes: {command}")


def main() -> None:
    options = _options()
    classes: list[str] = []
    found: Found | None = None
    if options.input.is_dir():
        if options.root is not None:
            raise ProgramError(f"--root {options.root}: {options.input} is a folder, --root is for list files only")
        if options.out.resolve().is_relative_to(options.input.resolve()):
            raise ProgramError(
                f"{options.out}: it lies in {options.input}, expected another place: folders there are classes"
            )
        tree = read_class_tree(options.input)
        if options.classes is None and not options.folders_are_classes:
            _check_level(tree, options.out)
        classes = tree.class_names if options.classes is None else read_classes(options.classes)
        if strange := [name for name in tree.class_names if name not in classes]:
            raise ProgramError(
                f"{options.input}: folders {', '.join(strange)} are not among the classes {', '.join(classes)}"
            )
        entries, found = tree.entries(classes), tree.found
        if moved := [f"{name} has the label {label}" for label, name in enumerate(classes) if _is_other(name, label)]:
            print(f"note: folders are numbers, but not their labels: {some(moved, 3)}; a list may mean others by them")
    else:
        for given, option in ((options.classes, "--classes"), (options.folders_are_classes, FOLDERS_ARE_CLASSES)):
            if given:
                raise ProgramError(f"{option}: {options.input} is a list, which has its own labels")
        entries = read_list(options.input, options.root or Path())
    for note in notes_on_labels(copies(entries, options.jobs)):
        print(f"note: {note}")
    if not options.no_shuffle:
        entries = [entries[i] for i in np.random.default_rng(options.seed).permutation(len(entries))]
    form = Format(options.resize, options.gray, options.encoded, chosen_reading(options, entries))
    how = {name: getattr(options, name) for name in ("jobs", "skip_unreadable", "force")}
    stored = build(entries, options.out, form, classes=classes, **how)
    skipped = f", {len(entries) - stored} unreadable ones skipped" if stored < len(entries) else ""
    print(f"{options.out}: {stored} images" + (f" of {len(classes)} classes" if classes else "") + skipped)
    if found is not None:
        print(f"{options.input}: {found.counted()}", *found.left_out(), sep="\n")
