"""The images that are given: source trees of one folder a class, and targets, whose labels are for tests alone."""

import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from unicodedata import category

from latent_domains.common.files import sha256
from latent_domains.common.program import ProgramError
from latent_domains.common.wording import count_of, some
from latent_domains.data.image_list import (
    Entry,
    Found,
    class_of,
    composed,
    find_all,
    find_files,
    folder_entries,
    is_visible,
    read_tree,
    shown,
    size,
)
from latent_domains.experiment.experiment import Experiment

FEWEST = 2
"""Images of a domain: the statistics of one image are no statistics."""

FEW = 10
"""Images of a class in a source, below which it is said that they are few."""

UNEQUAL = 5
"""How many times as many images a domain or a class has as another one where that is said."""


@dataclass(frozen=True)
class Domain:
    """A folder of images. ``name`` is used in the names of files and layers. Entries that are not labelled have -1."""

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
    """What the user should know, a line each."""

    @property
    def domains(self) -> tuple[Domain, ...]:
        """The sources, then the targets."""
        return (*self.sources, *self.targets)

    @property
    def counts(self) -> dict[str, int]:
        """How many each domain has."""
        return {domain.name: len(domain.entries) for domain in self.domains}

    @property
    def target_entries(self) -> list[Entry]:
        """All images of the targets; where these are several, the name of each image begins with its target's."""
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
    """List the images of the folders.

    The classes are the names of the sources' class folders. A target is labelled if its folders are called like
    classes; with ``unlabelled`` their folders mean nothing. No image is opened. Raises ProgramError naming the folder
    if the folders overlap, the classes do not agree (``allow_missing_classes``: a source may lack some), a source's
    folders look like domains (``folders_are_classes``: they are none), or there are too few images or classes.
    """
    for folder in (*sources, *targets):
        if not folder.is_dir():
            raise ProgramError(f"{folder}: {'a file' if folder.exists() else 'no such folder'}, expected a folder")
    names = domain_names([*sources, *targets])
    trees = {folder: _class_folders(folder) for folder in sources}
    classes = tuple(sorted({name for tree in trees.values() for name in tree}))
    notes = [] if folders_are_classes else _check_levels(trees, () if unlabelled else targets)
    notes += _check_classes(trees, classes, allow_missing_classes)
    domains = _labelled(names, sources, classes)
    for name, folder in zip(names[len(sources) :], targets, strict=True):
        labelled = not unlabelled and _is_labelled(folder, classes)
        if labelled:
            entries, _, inside = read_tree(folder, classes)
        else:
            entries, inside = folder_entries(folder)
            alike = "" if unlabelled else _spelled_otherwise(folder, classes)
            notes.append(f"{folder}: taken as unlabelled, so there will be predictions, but no accuracy{alike}")
        domains.append(Domain(name, folder, tuple(entries), inside, labelled))
    images = TaskImages(tuple(domains[: len(sources)]), tuple(domains[len(sources) :]), classes, ())
    notes += _check_domains(images)
    notes += [line for domain in images.domains for line in domain.found.left_out()]
    if twins := identical(images):
        which = f"{count_of(len(twins), 'image')} of a target {'is' if len(twins) == 1 else 'are'}"
        source, target = twins[0]
        notes.append(
            f"{which} also in a source, file for file: {shown(target)} is {shown(source)}; an accuracy on such "
            "images says little"
        )
    return replace(images, notes=tuple(notes))


def read_domains(root: Path) -> TaskImages:
    """List the images of a tree ``root``/DOMAIN/CLASS/…/IMAGE; the last domain is the target.

    A domain may lack some classes. Raises ProgramError if there are too few domains, images or classes.
    """
    folders = _visible_folders(root)
    if len(folders) < 2:
        raise ProgramError(
            f"{root}: {count_of(len(folders), 'folder')} in it, expected one for each of at least two domains, and "
            "in it one for each class"
        )
    trees = {folder: _class_folders(folder) for folder in folders}
    classes = tuple(sorted({name for tree in trees.values() for name in tree}))
    notes = _check_classes(trees, classes, allow_missing=True)
    domains = _labelled(domain_names(folders), folders, classes)
    images = TaskImages(tuple(domains[:-1]), tuple(domains[-1:]), classes, ())
    _check_domains(images)  # whose note is among the others
    notes += [line for domain in images.domains for line in domain.found.left_out()]
    return replace(images, notes=tuple(notes))


def _labelled(names: Sequence[str], folders: Sequence[Path], classes: Sequence[str]) -> list[Domain]:
    """Domains whose folders are classes; there may be more names."""
    domains = []
    for name, folder in zip(names, folders, strict=False):
        entries, _, inside = read_tree(folder, classes)
        domains.append(Domain(name, folder, tuple(entries), inside))
    return domains


def readable(
    images: TaskImages, stored: Mapping[str, Collection[str]], *, allow_missing_classes: bool = False
) -> TaskImages:
    """Those of the images whose names are among the ``stored`` of their domain, with notes on what they lack.

    Raises ProgramError as :func:`read_images` does if that is too much.
    """
    domains = [
        replace(domain, entries=tuple(entry for entry in domain.entries if entry.name in stored[domain.name]))
        for domain in images.domains
    ]
    sources = len(images.sources)
    left = replace(images, sources=tuple(domains[:sources]), targets=tuple(domains[sources:]), notes=())
    trees: dict[Path, dict[str, Found]] = {source.folder: defaultdict(Found) for source in left.sources}
    for source in left.sources:
        for entry in source.entries:
            trees[source.folder][left.classes[entry.label]].images.append(entry.name)
    notes = _check_classes(trees, left.classes, allow_missing_classes, "readable images")
    return replace(left, notes=(*notes, *_check_domains(left)))


def _check_classes(
    trees: Mapping[Path, Mapping[str, Found]], classes: Sequence[str], allow_missing: bool, kind: str = "images"
) -> list[str]:
    """What sources lack, a line each. Raises ProgramError if they may not, or have images of one class alone."""
    anywhere = {name for tree in trees.values() for name, inside in tree.items() if inside.images}
    notes = []
    for folder, tree in trees.items():
        if missing := [name for name in classes if name not in tree or not tree[name].images]:
            which = ", which other sources have" if anywhere.intersection(missing) else ""
            message = f"{folder}: no {kind} of {some(missing)}{which}"
            if unread := [line for name in missing for line in tree.get(name, Found()).left_out()]:
                message = f"{message} ({'; '.join(unread)})"
            if not allow_missing:
                raise ProgramError(f"{message}; if that is so, and not a matter of spelling: --allow-missing-classes")
            notes.append(message)
    if len(anywhere) < 2:
        raise ProgramError(
            f"{some(list(map(str, trees)))}: {kind} of one class, {', '.join(anywhere)}, expected a folder for each of "
            "at least two classes"
        )
    return notes


def _check_domains(images: TaskImages) -> list[str]:
    """What labelled targets lack. Raises ProgramError if there are too few images of a domain."""
    for domain in images.domains:
        if len(domain.entries) < FEWEST:
            raise ProgramError(
                f"{domain.folder}: {count_of(len(domain.entries), 'image')}, expected at least {FEWEST} of a domain"
            )
    notes = []
    for target in images.targets:
        found = {entry.label for entry in target.entries}
        missing = [name for label, name in enumerate(images.classes) if label not in found]
        if target.labelled and missing:
            notes.append(f"{target.folder}: no images of {some(missing)}")
    return notes


def about_numbers(images: TaskImages, experiment: Experiment) -> Iterator[str]:
    """What the numbers of images mean for the training, where they are small or differ much."""
    for source in images.sources:
        counts = Counter(images.classes[entry.label] for entry in source.entries).most_common()
        (most, largest), (least, smallest) = counts[0], counts[-1]
        if smallest < FEW:
            few = count_of(smallest, "image")
            yield f"{source.folder}: {few} of {least}: so few that the accuracy depends on which they are"
        if largest >= UNEQUAL * smallest:
            yield (
                f"{source.folder}: {largest} images of {most}, {smallest} of {least}: the classifier learns the "
                "frequent classes first"
            )
    if experiment.batch_split == "by_size":
        return
    domains = [domain for domain in images.domains if domain.name in experiment.parts]
    if experiment.batch_split == "per_group" and len(images.sources) > 1:  # the target has as many as they together
        domains = list(images.sources)
    sizes = {domain.name: len(domain.entries) for domain in domains}
    most, least = max(sizes, key=sizes.__getitem__), min(sizes, key=sizes.__getitem__)
    if (ratio := sizes[most] / sizes[least]) >= UNEQUAL:
        yield (
            f"{sizes[most]} images of {most}, {sizes[least]} of {least}: a batch has as many of each, so "
            f"those of {least} come {ratio:.0f} times as often"
        )


def domain_names(folders: Sequence[Path]) -> list[str]:
    """A name for each folder, its own as far as files and layers can bear it; the second of a name gets a number."""
    names: list[str] = []
    for folder in folders:
        name = plain_name(folder)
        number = 2
        unique = name
        while unique in names:
            unique, number = f"{name}_{number}", number + 1
        names.append(unique)
    return names


def plain_name(folder: Path) -> str:
    """The folder's own name in letters and digits of any script, dots, dashes and underscores."""
    return plain(folder.resolve().name) or "images"


def plain(name: str) -> str:
    """What is left of a name in such letters."""
    kept = (char if char in "_.-" or category(char)[0] in "LMN" else " " for char in composed(name))
    return re.sub(" +", "_", "".join(kept)).strip(".-")


def identical(images: TaskImages) -> list[tuple[Path, Path]]:
    """Pairs of a source's and a target's file with the same contents. Only files of the same size are read, once."""
    by_size: dict[int | None, tuple[list[str], list[str]]] = defaultdict(lambda: ([], []))
    for domain in images.domains:
        for entry in domain.entries:
            by_size[size(entry.path)][domain in images.targets].append(entry.path)
    by_size.pop(None, None)  # no files: they are named when they are to be read
    pairs = []
    for sources, targets in by_size.values():
        if sources and targets:
            by_digest = {_digest(path): path for path in reversed(sources)}
            digests = ((_digest(path), path) for path in targets)
            pairs += [(Path(by_digest[one]), Path(path)) for one, path in digests if one and one in by_digest]
    return sorted(pairs, key=lambda pair: pair[1])


def _digest(path: str) -> str | None:
    """None if the file cannot be read."""
    try:
        return sha256(Path(path))
    except OSError:
        return None


def check_apart(folders: Sequence[Path]) -> None:
    """Raise ProgramError if one of the folders is another one, or lies in it."""
    places = [folder.resolve() for folder in folders]
    for i, place in enumerate(places):
        for j, other in enumerate(places):
            if i != j and place.is_relative_to(other):
                relation = "is given twice" if place == other else f"lies in {folders[j]}"
                raise ProgramError(f"{folders[i]} {relation}: expected a folder of its own for each domain and for OUT")


def _folders(root: Path) -> dict[str, Found]:
    """What each of its folders holds. A name in two spellings is one folder."""
    found: dict[str, Found] = {}
    for folder, inside in find_all(_visible_folders(root)).items():
        found.setdefault(composed(folder.name), Found()).add(inside)
    return found


def _class_folders(root: Path) -> dict[str, Found]:
    """Class → what it holds. Raises ProgramError if there are none."""
    folders = _visible_folders(root)
    if not folders:
        raise ProgramError(f"{root}: no folders in it, expected one for each class")
    for folder in folders:
        class_of(folder)
    tree = _folders(root)
    if not any(found.images for found in tree.values()):
        read_tree(root)  # says which endings images have
    return tree


def _check_levels(trees: Mapping[Path, Mapping[str, Found]], targets: Sequence[Path]) -> list[str]:
    """Which sources' folders look like domains, but are called as another source's or a target's, a line each.

    Raises ProgramError naming a source whose folders nobody else has.
    """
    if not any(map(_in_each, trees.values())):
        return []
    others = [*trees.values(), *map(_folders, targets)]
    known = {name for tree in others if not _in_each(tree) for name, found in tree.items() if found.images}
    notes = []
    for root, tree in trees.items():
        if not (common := _in_each(tree)):
            continue
        folders = [folder for folder in _visible_folders(root) if tree[composed(folder.name)].images]
        message = f"{root}: its folders {some([folder.name for folder in folders])} each hold {some(sorted(common))}"
        if known.isdisjoint(name for name, found in tree.items() if found.images):
            options = " ".join(f"--source {shlex.quote(str(folder))}" for folder in folders)
            raise ProgramError(
                f"{message}, so they look like domains, not classes: give each by itself, as in {options}, or pass "
                "--folders-are-classes"
            )
        notes.append(f"{message}; taken for classes all the same, as other folders are called so")
    return notes


def _in_each(tree: Mapping[str, Found]) -> set[str]:
    """The folders in all folders of a tree, if these hold no images themselves and look like domains; or none."""
    images = [found.images for found in tree.values() if found.images]
    if len(images) < 2 or any("/" not in name for names in images for name in names):
        return set()
    common = set.intersection(*({name.partition("/")[0] for name in names} for names in images))
    return common if len(common) > 1 else set()


def _is_labelled(target: Path, classes: Sequence[str]) -> bool:
    """Whether the target's folders are classes. Raises ProgramError if only some of its images lie in such folders."""
    folders = {name: found.images for name, found in _folders(target).items()}
    known = [name for name in folders if name in classes]
    if not known:
        return False
    strange = [name for name, files in folders.items() if name not in classes and files]
    hint = "or pass --unlabelled if folder names are no labels there"
    if strange:
        raise ProgramError(
            f"{target}: no source has the classes {some(strange)}, expected some of {some(classes)}: rename or "
            f"remove the folders, {hint}"
        )
    loose = [name for name in find_files(target).images if "/" not in name]
    if loose:
        raise ProgramError(f"{target}: {loose[0]} lies beside the class folders: move it into one, {hint}")
    return any(folders.values())


def _spelled_otherwise(target: Path, classes: Sequence[str]) -> str:
    """Which folders of the target would be classes but for capital letters, in words; empty if none."""
    names = {name.casefold(): name for name in classes}
    alike = [folder.name for folder in _visible_folders(target) if composed(folder.name).casefold() in names]
    meant = [names[composed(name).casefold()] for name in alike]
    return f"; its folders {some(alike)} would be labels if they were called {some(meant)}" if alike else ""


def _visible_folders(root: Path) -> list[Path]:
    return sorted(path for path in root.iterdir() if path.is_dir() and is_visible(path.name))
