"""Image sets as people unpack them, DOMAIN/CLASS/… or DOMAIN/images/CLASS/…, to LMDBs: one for each domain."""

import shlex
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from latent_domains.common.program import ProgramError
from latent_domains.common.wording import some, table
from latent_domains.data.folder_tree import domains_in
from latent_domains.data.image_datum import Format
from latent_domains.data.image_list import ClassTree, Entry, visible_folders, walk_classes
from latent_domains.data.image_lmdb import plan_of_images
from latent_domains.data.lmdb_plans import PlannedLmdb
from latent_domains.data.preprocessing import SEEN, check_size, size_folder, stored_side
from latent_domains.data.sets.published import ImageSet


def plans(
    image_set: ImageSet,
    images: Path,
    out: Path,
    *,
    seed: int = 0,
    jobs: int = 1,
    allow_incomplete: bool = False,
    image_size: int = SEEN,
) -> list[PlannedLmdb]:
    """Plan an LMDB for each domain under ``out``/SET; no image is read before its LMDB is built.

    ``seed`` draws the order of the records. Images are stored for nets that see squares of side ``image_size``; if it
    is not SEEN, they get a folder of their own. If images are missing or extra in the folder ``images``, the error has
    a table of them; with ``allow_incomplete`` it is a note, and a domain without images gets no LMDB.
    """
    trees = read_domains(images, image_set)
    image_set = image_set.with_found(counted(trees))
    _report_differences(image_set, images, trees, allow_incomplete)
    check_size(image_size)
    side = stored_side(image_size)
    place = out / (image_set.name if image_size == SEEN else size_folder(image_set.name, image_size))
    found = {name: entries(trees[name], image_set) for name in image_set.domains if name in trees}
    if not any(found.values()):
        raise ProgramError(f"none of the images of {image_set.title} are there")
    return [
        plan_of_images(
            place / domain,
            found[domain],
            image_set.classes,
            Format((side, side)),
            program=f"tools.get_data {image_set.name}",
            order=(seed, 200 + number),
            jobs=jobs,
            remedy="replace it, or remove it and pass --allow-incomplete to go on without it",
        )
        for number, domain in enumerate(image_set.domains)
        if found.get(domain)
    ]


def read_domains(root: Path, image_set: ImageSet) -> dict[str, ClassTree]:
    """List the images of the domains' folders in ``root``, by domain. Hidden files and folders are skipped.

    Refuses several folders that may be the same domain. Raises OSError if one cannot be read.
    """
    if not root.is_dir():
        raise ProgramError(f"{root}: no such folder, expected one that holds {', '.join(image_set.domains)}")
    domains = _named(visible_folders(root), image_set, image_set.domains)
    if not domains:
        meant = [one for one in visible_folders(root) if _named(visible_folders(one), image_set, image_set.domains)]
        if image_set.canonical(root.resolve().name) in image_set.domains:
            meant.append(root.resolve().parent)
        hint = f"; some are in {some(f'--images {shlex.quote(str(folder))}' for folder in meant)}" if meant else ""
        raise ProgramError(f"{root}: found none of the folders {', '.join(image_set.domains)} in it{hint}")
    return {domain: _read_domain(folder, image_set) for domain, folder in domains.items()}


def _read_domain(folder: Path, image_set: ImageSet) -> ClassTree:
    if (inside := folder / "images").is_dir():
        folder = inside
    if not visible_folders(folder):
        return ClassTree(folder)
    tree = walk_classes(folder, lambda path: image_set.canonical(path.name))
    classes = image_set.classes or [one.class_name for one in tree.folders]
    if not tree.of_classes(classes).found.images and (found := domains_in(tree)):
        meant = f"expected {folder}/CLASS: move there what lies in {some(map(str, found.holders))}"
        raise found.error(meant, otherwise="")
    _named([one.folder for one in tree.folders], image_set, classes)
    return tree


def counted(trees: dict[str, ClassTree]) -> dict[str, dict[str, int]]:
    """Count the images of each class folder, by domain."""
    return {domain: {one.class_name: len(one.found.images) for one in tree.folders} for domain, tree in trees.items()}


def _named(folders: Iterable[Path], image_set: ImageSet, names: Sequence[str]) -> dict[str, Path]:
    """Return the folders of the ``names``. Refuses two folders that may be the same domain or class."""
    found: dict[str, Path] = {}
    for folder in folders:
        name = image_set.canonical(folder.name)
        if name in names and (first := found.setdefault(name, folder)) != folder:
            raise ProgramError(f"{first} and {folder} could both be {name}: expected only one of them")
    return found


def entries(tree: ClassTree, image_set: ImageSet) -> list[Entry]:
    """Return a domain's images, named CLASS/IMAGE, in the order of the labels."""
    folders = {one.class_name: one for one in tree.folders}
    return [
        Entry(f"{folders[name].folder}/{image}", f"{name}/{image}", label)
        for label, name in enumerate(image_set.classes)
        if name in folders
        for image in folders[name].found.images
    ]


def _report_differences(image_set: ImageSet, root: Path, trees: dict[str, ClassTree], allow_incomplete: bool) -> None:
    """Report differences from the published set: as an error or, with ``allow_incomplete``, as a note."""
    known = {domain: tree.of_classes(image_set.classes).found for domain, tree in trees.items()}
    for domain, found in known.items():
        print(f"{domain}: {found.counted()}", *found.left_out(), sep="\n", file=sys.stderr)
    if not (rows := differences(image_set, trees)):
        return
    images = sum(len(found.images) for found in known.values())
    published = sum(image_set.images.values())
    report = (
        f"{root}: not {image_set.title} as published ({images} images of its classes, published {published}):\n"
        f"{table(('domain', 'class', 'found', 'published', 'remark'), rows)}"
    )
    if not allow_incomplete:
        raise ProgramError(f"{report}\nnothing was built; --allow-incomplete builds what is there")
    print(f"note: {report}", file=sys.stderr)


def differences(image_set: ImageSet, trees: dict[str, ClassTree]) -> list[tuple[str, str, str, str, str]]:
    """Return rows of domain, class, images found, images published, remark: for each class whose count differs.

    A domain without images has one row, and so has each folder that is not a class.
    """
    rows, images = [], counted(trees)
    for domain, published in image_set.counts.items():
        tree = trees.get(domain)
        counts, total = images.get(domain, {}), image_set.images[domain]
        if not any(counts.get(name) for name in published):
            remark = "no images in its class folders" if tree else "no such folder"
            rows.append((domain, "all classes", 0, total, remark))
        else:
            compared = {name: (counts.get(name, 0), expected) for name, expected in published.items()}
            if image_set.totals:
                compared["all classes"] = sum(counts.values()), total
            for name, (found, expected) in compared.items():
                if surplus := found - expected:
                    remark = f"{surplus} extra" if surplus > 0 else f"{-surplus} missing"
                    rows.append((domain, name, found, expected, remark))
                elif not found:
                    rows.append((domain, name, 0, "some", "no images, but other domains have this class"))
        for one in tree.folders if tree else ():
            if one.class_name not in published and not image_set.is_of_larger_set(one.class_name):
                rows.append((domain, one.folder.name, len(one.found.images), 0, "folder of no known class, left out"))
    return [(domain, name, str(found), str(count), remark) for domain, name, found, count, remark in rows]
