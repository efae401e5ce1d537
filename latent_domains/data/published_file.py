"""A file that others publish: from a mirror folder, a Python package or the network, checked by its hashes."""

import gzip
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from latent_domains.common.files import check_free, write_aside
from latent_domains.common.program import ProgramError
from latent_domains.data.fetch import Unavailable, check_hashes, download


@dataclass(frozen=True)
class PublishedFile:
    """Weights, or a file of a data set."""

    name: str
    """Its place in a mirror or download folder."""
    title: str
    hashes: Mapping[str, str]
    """By algorithm; the file must have all of them. Of the contents, where the name ends in .gz."""
    urls: tuple[str, ...]
    """Tried in this order."""
    package: str | None = None
    """The Python package that holds the file, in place of URLs."""
    home: str | None = None
    """Where it comes from, in words, if no URL here leads to it."""

    def check(self, path: Path, name: str | None = None) -> None:
        """Raise ProgramError, naming ``name`` or ``path``, unless ``path`` is this file."""
        check_hashes(path, self.hashes, name or str(path), packed=self.name.endswith(".gz"))


def read_contents(file: PublishedFile, downloads: Path, mirror: Path | None = None) -> bytes:
    """Return the unpacked contents of a file in the folder ``mirror`` or, if that is None, ``downloads``.

    It is downloaded when missing. Raises ProgramError naming the file if it is missing, damaged or another one.
    """
    path = (mirror or downloads) / file.name
    if path.is_file():
        file.check(path)
    elif mirror is not None:
        raise ProgramError(f"{path}: not there; a mirror folder must hold {file.name}")
    else:
        download(file.urls, path, lambda arrived: file.check(arrived, str(path)))
    data = path.read_bytes()
    return gzip.decompress(data) if file.name.endswith(".gz") else data


def get(file: PublishedFile, out: Path, mirror: Path | None, *, force: bool = False) -> Path:
    """Return the place of the whole, checked file in the folder ``out``; copy or download it if it is not there.

    ``mirror``, WEIGHTS_MIRROR or its package must hold it, if there is one of these; DATA_MIRROR may. Raises
    Unavailable if it cannot be had, and ProgramError if another file of its name is there and ``force`` is false.
    """
    target = out / file.name
    source = _find_in_mirror(file, mirror)
    check_free(target, force=True)
    if target.exists():
        try:
            file.check(target)
            return target
        except ProgramError as error:
            if not force:
                raise ProgramError(f"{error}: it is not {file.title}; pass --force to replace it") from error
    if source is not None:
        file.check(source)
    elif file.package:
        source = in_package(file)
    if source is not None:
        with write_aside(target) as aside:
            shutil.copyfile(source, aside)
        return target
    hashes = ", ".join(f"{algorithm} {value}" for algorithm, value in file.hashes.items())
    if file.home:
        raise Unavailable(f"{target}: not there, expected {file.home}: put it there ({hashes})")
    try:
        download(file.urls, target, lambda arrived: file.check(arrived, file.name))
    except Unavailable as error:
        raise Unavailable(
            f"{error}\nWhere there is no network: fetch {file.urls[0]} elsewhere ({hashes}), put it at {target} and "
            "run this again to have it checked."
        ) from error
    return target


def is_at_hand(file: PublishedFile, out: Path, mirror: Path | None = None) -> bool:
    """Whether a file is in the folder ``out`` or, whatever is in it, in a mirror folder."""
    try:
        return (out / file.name).is_file() or _find_in_mirror(file, mirror) is not None
    except Unavailable:
        return False


def in_package(file: PublishedFile) -> Path:
    """Return the place of the checked file in its Python package, none of whose code runs.

    Raises ProgramError if the package is not installed or its file is another one.
    """
    try:
        parts = metadata.files(file.package) or ()
    except metadata.PackageNotFoundError:
        parts = ()
    place = next((Path(part.locate()) for part in parts if part.name == file.name), None)
    if place is None or not place.is_file():
        raise ProgramError(f"{file.name}: the Python package {file.package}, which holds it, is not here: make setup")
    file.check(place)
    return place


def _find_in_mirror(file: PublishedFile, mirror: Path | None) -> Path | None:
    """Return the place of the file in a mirror folder, or None. What a package holds is looked for in ``mirror`` alone.

    A ``mirror`` that is named, or WEIGHTS_MIRROR, must hold it, or Unavailable is raised; DATA_MIRROR may be one of
    data sets alone.
    """
    if mirror is None and file.package:
        return None
    required = mirror or os.environ.get("WEIGHTS_MIRROR")
    folder = required or os.environ.get("DATA_MIRROR")
    places = [Path(folder, file.name), Path(folder, "weights", file.name)] if folder else []
    found = next(filter(Path.is_file, places), None)
    if required and found is None:
        raise Unavailable(f"mirror {required}: it holds neither {file.name} nor weights/{file.name}")
    return found
