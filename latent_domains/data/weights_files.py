"""Fetch published weights, or find them in a mirror folder."""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from tqdm import tqdm

from latent_domains.common.files import check_free, write_aside
from latent_domains.common.program import ProgramError
from latent_domains.data.fetch import Unavailable, check_hashes, download


@dataclass(frozen=True)
class WeightsFile:
    """Weights that others trained on ImageNet."""

    name: str
    """Of the file, as it is published."""
    title: str
    hashes: Mapping[str, str]
    """By algorithm; the file must have all of them."""
    urls: tuple[str, ...]
    """Tried in this order."""
    package: str | None = None
    """The Python package that holds the file, in place of URLs."""


def get(file: WeightsFile, out: Path, mirror: Path | None, *, force: bool = False) -> Path:
    """Return the place of the whole, checked file in the folder ``out``; copy it from ``mirror`` or download it.

    Raises ProgramError if another file of its name is there and ``force`` is false, if the mirror's is another
    one, or if neither its package nor a URL delivers it.
    """
    target = out / file.name
    check_free(target, force=True)
    if target.exists():
        try:
            check_hashes(target, file.hashes, str(target))
            return target
        except ProgramError as error:
            if not force:
                raise ProgramError(f"{error}: it is not {file.title}; pass --force to replace it") from error
    source = in_package(file) if mirror is None and file.package else mirror
    if source is not None:
        _copy(source, target, file)
        return target
    try:
        download(file.urls, target, lambda arrived: check_hashes(arrived, file.hashes, file.name))
    except Unavailable as error:
        raise ProgramError(f"{error}\n{_by_hand(file, target)}") from error
    return target


def _copy(source: Path, target: Path, file: WeightsFile) -> None:
    check_hashes(source, file.hashes, str(source))
    with (
        write_aside(target) as aside,
        source.open("rb") as stream,
        aside.open("wb") as copy,
        tqdm.wrapattr(stream, "read", desc=file.name, total=source.stat().st_size, unit_divisor=1024) as contents,
    ):
        shutil.copyfileobj(contents, copy, 1 << 20)


def in_package(file: WeightsFile) -> Path:
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
    check_hashes(place, file.hashes, str(place))
    return place


def find_in_mirror(file: WeightsFile, mirror: Path | None) -> Path | None:
    """Return the place of the file in a mirror folder, or None. What a package holds is looked for in ``mirror`` alone.

    A ``mirror`` that is named, or WEIGHTS_MIRROR, must hold it, or ProgramError is raised; DATA_MIRROR may be one of
    data sets alone.
    """
    if mirror is None and file.package:
        return None
    weights, data = os.environ.get("WEIGHTS_MIRROR"), os.environ.get("DATA_MIRROR")
    mirror = mirror or (Path(weights) if weights else None)
    folder = mirror or (Path(data) if data else None)
    if folder is not None:
        for place in (folder / file.name, folder / "weights" / file.name):
            if place.is_file():
                return place
    if mirror is None:
        return None
    if not mirror.is_dir():
        raise ProgramError(f"mirror {mirror}: no such folder")
    raise ProgramError(f"mirror {mirror}: it holds neither {file.name} nor weights/{file.name}")


def _by_hand(file: WeightsFile, target: Path) -> str:
    hashes = ", ".join(f"{algorithm} {value}" for algorithm, value in file.hashes.items())
    return (
        f"Where there is no network: fetch {file.urls[0]} elsewhere ({hashes}), put it at {target} and run this "
        "again to have it checked."
    )
