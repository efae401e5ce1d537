"""Domains as folders of images: sources with one folder per class, and targets, whose labels are only used in tests."""

import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from latent_domains.common.files import check_apart
from latent_domains.common.program import ProgramError
from latent_domains.common.wording import count_of, some
from latent_domains.data.folder_tree import Domains, agree, domains_in
from latent_domains.data.image_list import (
    ClassTree,
    Entry,
    Found,
    composed,
    folder_entries,
    in_order,
    is_image,
    read_class_tree,
    visible_folders,
    walk_classes,
)
from latent_domains.data.names import domain_names

FEWEST = 2
"""Fewest images of a domain: one image has no variance."""

FEW = 10
"""A class with fewer images in a source gets a note."""

UNEQUAL = 5
"""A class with this many times the images of another class gets a note."""


@dataclass(frozen=True)
class Domain:
    """A folder of images. ``name`` becomes part of the names of files and layers.

    Unlabelled entries have the label -1.
    """

    name: str
    folder: Path
    entries: tuple[Entry, ...]
    found: Found
    labelled: bool = True


@dataclass(frozen=True)
class TaskImages:
    """All images of a task."""

    sources: tuple[Domain, ...]
    targets: tuple[Domain, ...]
    classes: tuple[str, ...]
    notes: tuple[str, ...]
    """Notes for the user, one per line."""

    @property
    def domains(self) -> tuple[Domain, ...]:
        """The sources, then the targets."""
        return (*self.sources, *self.targets)

    @property
    def entries(self) -> list[Entry]:
        """All images of all domains."""
        return [entry for domain in self.domains for entry in domain.entries]

    @property
    def counts(self) -> dict[str, int]:
        """The number of images of each domain."""
        return {domain.name: len(domain.entries) for domain in self.domains}

    def missing_classes(self, domain: Domain) -> list[str]:
        """Return the classes of which a domain has no image."""
        labels = {entry.label for entry in domain.entries}
        return [name for label, name in enumerate(self.classes) if label not in labels]

    def left_out(self) -> list[str]:
        """Describe what is not used of the domains' folders, one per line."""
        return [line for domain in self.domains for line in domain.found.left_out()]

    @property
    def target_entries(self) -> list[Entry]:
        """All images of the targets; of several targets, each image's name begins with its target's name."""
        if len(self.targets) == 1:
            return list(self.targets[0].entries)
        return [
            replace(entry, name=f"{target.name}/{entry.name}") for target in self.targets for entry in target.entries
        ]


def read_images(
    sources: Sequence[Path],
    targets: Sequence[Path],
    *,
    unlabelled: bool = False,
    allow_missing_classes: bool = False,
    folders_are_classes: bool = False,
) -> TaskImages:
    """List the images of the folders, without opening them.

    The sources' class folders name the classes. A target is labelled if its folders have the names of classes, unless
    ``unlabelled``. Refuses folders that overlap, and too few images or classes. Refuses a source that lacks classes,
    unless ``allow_missing_classes``, and one whose folders look like domains, unless ``folders_are_classes``.
    """
    _check_folders((*sources, *targets))
    names = domain_names([*sources, *targets])
    trees = _read_trees(sources, folders_are_classes, partial(_each_by_itself, "--source "))
    images = _of_trees(names[: len(sources)], trees)
    images = replace(images, notes=tuple(_check_classes(images, allow_missing_classes)))
    domains, notes = [], [*images.notes]
    for name, folder in zip(names[len(sources) :], targets, strict=True):
        tree = None if unlabelled else _read_labelled(folder, images.classes)
        if tree:
            domains.append(Domain(name, folder, tuple(tree.entries(images.classes)), tree.found))
        else:
            entries, inside = folder_entries(folder)
            notes.append(f"{folder}: taken as unlabelled, so there will be predictions, but no accuracy")
            domains.append(Domain(name, folder, tuple(entries), inside, labelled=False))
    images = replace(images, targets=tuple(domains))
    notes += [*_check_domains(images), *images.left_out()]
    return replace(images, notes=tuple(notes))


def read_domains(root: Path, *, folders_are_classes: bool = False) -> TaskImages:
    """List the images of a tree ``root``/DOMAIN/CLASS/…/IMAGE; the last domain is the target.

    A domain may lack some classes. Refuses too few domains, images or classes, domains without a common class, and a
    domain whose folders look like domains, unless ``folders_are_classes``.
    """
    folders = visible_folders(root)
    if len(folders) < 2:
        raise ProgramError(
            f"{root}: {count_of(len(folders), 'folder')} in it, expected one for each of at least two domains, and "
            "in it one for each class"
        )
    trees = _read_trees(folders, folders_are_classes, _beside_each_other)
    images = _of_trees(domain_names(folders), trees)
    notes = _check_classes(images, allow_missing=True)
    if _share_no_class(images):
        raise ProgramError(
            f"{root}: no two of its folders {some(folder.name for folder in folders)} hold a folder of the same name, "
            "so they look like classes, not domains: expected a folder for each domain, and in it one for each class"
        )
    images = replace(images, sources=images.sources[:-1], targets=images.sources[-1:])
    _check_domains(images)  # whose note is among the others
    return replace(images, notes=(*notes, *images.left_out()))


def read_piles(folders: Sequence[Path], *, unlabelled: bool = False, folders_are_classes: bool = False) -> TaskImages:
    """List the pictures of FOLDER/CLASS/…/PICTURE as sources, without opening them.

    If ``unlabelled``, the folders may have any folders in them, and there are no classes. Refuses folders that lie in
    each other, folders that share no class, and those whose folders look like domains, unless ``folders_are_classes``.
    """
    _check_folders(folders)
    check_apart(folders, "folders of which none lies in another")
    names = domain_names(folders)
    if not unlabelled:
        for folder in folders:
            if not visible_folders(folder):
                raise ProgramError(f"{folder}: no folders in it, expected one for each class, or --unlabelled")
        trees = _read_trees(folders, folders_are_classes, partial(_each_by_itself, ""))
        images = _of_trees(names, trees)
        if len(trees) == 1:
            return images
        if _share_no_class(images):
            raise ProgramError(
                f"{some(map(str, folders))}: no two of them have a folder of the same name, so styles cannot be "
                "distinguished from classes: give a class the same name everywhere, or pass --unlabelled"
            )
        return replace(images, notes=tuple(message for _, message in _lacking(images)))
    sources = []
    for name, folder in zip(names, folders, strict=True):
        entries, found = folder_entries(folder)
        sources.append(Domain(name, folder, tuple(entries), found, labelled=False))
    return TaskImages(tuple(sources), (), (), ())


def _check_folders(folders: Sequence[Path]) -> None:
    for folder in folders:
        if not folder.is_dir():
            raise ProgramError(f"{folder}: {'a file' if folder.exists() else 'no such folder'}, expected a folder")


def _read_trees(roots: Sequence[Path], folders_are_classes: bool, instead: Callable[[Domains], str]) -> list[ClassTree]:
    """Read the trees. Refuses one whose folders look like domains: ``instead`` says what to do with them.

    Folders count as classes if other trees have classes of these names.
    """
    trees = list(map(read_class_tree, roots))
    if folders_are_classes:
        return trees
    found = [domains_in(tree) for tree in trees]
    known = {name for tree, domains in zip(trees, found, strict=True) if not domains for name in tree.class_names}
    for tree, domains in zip(trees, found, strict=True):
        if domains and not known.issuperset(tree.class_names):
            raise domains.error(instead(domains))
    return trees


def _of_trees(names: Sequence[str], trees: Sequence[ClassTree]) -> TaskImages:
    """Return the images of the sources' trees."""
    classes = tuple(in_order(name for tree in trees for name in tree.class_names))
    sources = [
        Domain(name, tree.root, tuple(tree.entries(classes)), tree.found)
        for name, tree in zip(names, trees, strict=True)
    ]
    return TaskImages(tuple(sources), (), classes, ())


def keep_readable(
    images: TaskImages, stored: Mapping[str, Collection[str]], *, allow_missing_classes: bool = False
) -> TaskImages:
    """Keep the images whose names are among the ``stored`` of their domain, with notes on what is missing.

    Refuses too few images or classes, as :func:`read_images` does.
    """

    def left(domains: Sequence[Domain]) -> tuple[Domain, ...]:
        return tuple(
            replace(domain, entries=tuple(entry for entry in domain.entries if entry.name in stored[domain.name]))
            for domain in domains
        )

    images = replace(images, sources=left(images.sources), targets=left(images.targets))
    notes = _check_classes(images, allow_missing_classes, "readable images")
    return replace(images, notes=(*notes, *_check_domains(images)))


def _share_no_class(images: TaskImages) -> bool:
    """Say whether each class has images in only one source."""
    of_sources = [{entry.label for entry in source.entries} for source in images.sources]
    return len(set().union(*of_sources)) == sum(map(len, of_sources))


def _lacking(images: TaskImages, kind: str = "images") -> list[tuple[Domain, str]]:
    """Return the sources that lack classes, each with a description of them."""
    missing = [images.missing_classes(source) for source in images.sources]
    nowhere = set(images.classes).intersection(*missing)
    return [
        (
            source,
            f"{source.folder}: no {kind} of {some(names)}"
            + ("" if nowhere.issuperset(names) else ", which other sources have"),
        )
        for source, names in zip(images.sources, missing, strict=True)
        if names
    ]


def _check_classes(images: TaskImages, allow_missing: bool, kind: str = "images") -> list[str]:
    """List the classes that sources lack, one per line.

    Refuses them unless ``allow_missing``, and fewer than two classes.
    """
    notes = []
    for source, message in _lacking(images, kind):
        if not allow_missing:
            unread = f" ({'; '.join(lines)})" if (lines := source.found.left_out()) else ""
            raise ProgramError(f"{message}{unread}; check the spelling, or pass --allow-missing-classes")
        notes.append(message)
    there = {images.classes[entry.label] for source in images.sources for entry in source.entries}
    if len(there) < 2:
        raise ProgramError(
            f"{some([str(source.folder) for source in images.sources])}: {kind} of one class, {', '.join(there)}, "
            "expected a folder for each of at least two classes"
        )
    return notes


def _check_domains(images: TaskImages) -> list[str]:
    """List the classes that labelled targets lack. Refuses a domain with too few images."""
    for domain in images.domains:
        if len(domain.entries) < FEWEST:
            raise ProgramError(
                f"{domain.folder}: {count_of(len(domain.entries), 'image')}, expected at least {FEWEST} of a domain"
            )
    return [
        f"{target.folder}: no images of {some(missing)}"
        for target in images.targets
        if target.labelled and (missing := images.missing_classes(target))
    ]


def notes_on_classes(images: TaskImages, *, equal: bool) -> Iterator[str]:
    """Yield notes on classes of the sources that have few images, or many more than others.

    ``equal`` says whether training draws all classes equally often.
    """
    for source in images.sources:
        counts = Counter(images.classes[entry.label] for entry in source.entries).most_common()
        (most, largest), (least, smallest) = counts[0], counts[-1]
        if smallest < FEW:
            few = count_of(smallest, "image")
            yield f"{source.folder}: {few} of {least}: so few that the accuracy depends on which they are"
        if largest >= UNEQUAL * smallest:
            then = "images of rare classes repeat" if equal else "the classifier learns the frequent classes first"
            yield f"{source.folder}: {largest} images of {most}, {smallest} of {least}: {then}"


def _each_by_itself(option: str, found: Domains) -> str:
    """Say how to give the domains in a folder one by one, each after ``option``."""
    words = [f"{option}{shlex.quote(str(folder))}" for folder in found.holders]
    return f"give those that you mean, each by itself, as in {' '.join(words[:8])}{' …' if len(words) > 8 else ''}"


def _beside_each_other(found: Domains) -> str:
    return f"expected DIR/DOMAIN/CLASS/…/IMAGE: make a folder DIR of links to {some(map(str, found.holders))}"


def _read_labelled(target: Path, classes: Sequence[str]) -> ClassTree | None:
    """Return the target's folders if they are classes; None if none of them is.

    Refuses a target in which only some images lie in class folders, in which these lie deeper, or whose folders are
    spelled differently.
    """
    if not visible_folders(target):
        return None
    tree = walk_classes(target, lambda folder: composed(folder.name))
    hint = "or pass --unlabelled if folder names are no labels there"
    if not (set(classes).intersection(tree.class_names) or agree(tree.class_names, classes)):
        if (found := domains_in(tree)) and agree(found.classes, classes):
            raise found.error(_each_by_itself("--target ", found), hint)
        return None
    strange = sorted({one.class_name for one in tree.folders if one.found.images}.difference(classes))
    if strange:
        raise ProgramError(
            f"{target}: no source has the classes {some(strange)}, expected some of {some(classes)}: rename or "
            f"remove the folders, {hint}"
        )
    if loose := [file.name for file in tree.beside if is_image(file.name)]:
        raise ProgramError(f"{target}: {loose[0]} lies beside the class folders: move it into one, {hint}")
    known = tree.of_classes(classes)
    return known if known.found.images else None
