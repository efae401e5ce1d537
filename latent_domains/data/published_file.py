"""Published files: from a mirror folder, a Python package or the network, complete and checked by hashes."""

import gzip
import hashlib
import http.client
import os
import shutil
import ssl
import sys
import time
import urllib.request
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from urllib.error import HTTPError, URLError

from tqdm import tqdm

from latent_domains.common.files import check_free, write_aside
from latent_domains.common.program import ProgramError

ATTEMPTS = 4
"""Connections to one URL before the next one is tried; each continues where the last one broke."""

TIMEOUT = 30
"""Seconds without a byte after which a connection counts as broken."""

_CHUNK = 1 << 16

_AGENT = "caffe-latent-domains"
"""The name for servers, some of which refuse urllib's own."""

_NETWORK = (URLError, http.client.HTTPException, ConnectionError, TimeoutError, ssl.SSLError)
"""Errors of a connection; any other OSError is the disk's."""


class Unavailable(ProgramError):
    """No URL delivers the file: the message has what failed at each."""


def download(urls: Sequence[str], target: Path, check: Callable[[Path], None], *, pause: float = 1.0) -> None:
    """Download ``target`` from the first of ``urls`` that delivers it completely and passes ``check``.

    ``check`` gets the file and raises ProgramError if it is the wrong one. The pause between two attempts is ``pause``
    seconds, doubled each time. Raises Unavailable if no URL delivers it. After any error nothing is left.
    """
    failures = []
    with write_aside(target) as file:
        for url in urls:
            try:
                _download_from(url, file, pause)
                check(file)
                return
            except (*_NETWORK, ProgramError) as failure:
                with file.open("rb") as arrived:
                    page = "a web page, not the file: " if arrived.read(64).lstrip().startswith(b"<") else ""
                failures.append(f"\n  {url}: {page}{failure}")
            except OSError as error:
                raise ProgramError(f"{target}: writing it failed: {error.strerror or error}") from error
        raise Unavailable(
            f"{target.name} could not be downloaded from its URLs (name a folder that has it with "
            f"DATA_MIRROR):{''.join(failures)}"
        )


def _download_from(url: str, file: Path, pause: float) -> None:
    """Fill ``file`` from one URL. Raises one of _NETWORK after ATTEMPTS connections or a refusal, such as 404."""
    file.write_bytes(b"")
    for attempt in range(ATTEMPTS):
        try:
            _continue(url, file)
            return
        except _NETWORK as failure:
            refused = isinstance(failure, HTTPError) and failure.code < 500 and failure.code != 429
            if refused or attempt == ATTEMPTS - 1:
                raise
            wait = pause * 2**attempt
            tqdm.write(f"{url}: {failure}; once more in {wait:g} s", file=sys.stderr)
            time.sleep(wait)


def _continue(url: str, file: Path) -> None:
    """Fetch the missing rest of ``file``. Raises one of _NETWORK."""
    have = file.stat().st_size
    headers = {"User-Agent": _AGENT, **({"Range": f"bytes={have}-"} if have else {})}
    request = urllib.request.Request(url, headers=headers)  # noqa: S310
    with urllib.request.urlopen(request, timeout=TIMEOUT) as response:  # noqa: S310
        if response.status != 206:
            have = 0  # the server sends the whole file whatever was asked for
        length = response.headers.get("Content-Length", "")
        total = have + int(length) if length.isdigit() else None
        bar = tqdm(desc=file.name, total=total, initial=have, unit="B", unit_scale=True, unit_divisor=1024)
        with file.open("ab" if have else "wb") as out, bar:
            while chunk := response.read(_CHUNK):
                out.write(chunk)
                have += len(chunk)
                bar.update(len(chunk))
    if total is not None and have < total:
        raise ConnectionError(f"the connection ended after {have} of {total} bytes")


def check_hashes(file: Path, hashes: Mapping[str, str], name: str, *, packed: bool = False) -> None:
    """Raise ProgramError, with ``name``, unless a file has these ``hashes``, by algorithm (sha1, sha256).

    If it is ``packed`` by gzip, they are hashes of its contents: copies in circulation are packed differently.
    """
    for algorithm, expected in hashes.items():
        new_hash = partial(hashlib.new, algorithm, usedforsecurity=False)
        try:
            with gzip.open(file) if packed else file.open("rb") as contents:
                found = hashlib.file_digest(contents, new_hash).hexdigest()
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise ProgramError(f"{name}: not a whole gzip file ({file.stat().st_size} bytes): {error}") from error
        if found != expected:
            raise ProgramError(f"{name}: {'its contents have ' * packed}{algorithm} {found}, expected {expected}")


@dataclass(frozen=True)
class PublishedFile:
    """Weights, or a file of a dataset."""

    name: str
    """Its path in a mirror or download folder."""
    title: str
    hashes: Mapping[str, str]
    """By algorithm; the file must have all of them. They are of the contents if the name ends in .gz."""
    urls: tuple[str, ...]
    """Tried in this order."""
    package: str | None = None
    """The Python package that contains the file, instead of URLs."""
    home: str | None = None
    """Where it comes from, in words, if no URL here leads to it."""

    def check(self, path: Path, name: str | None = None) -> None:
        """Raise ProgramError, naming ``name`` or ``path``, unless ``path`` is this file."""
        check_hashes(path, self.hashes, name or str(path), packed=self.name.endswith(".gz"))


def read_contents(file: PublishedFile, downloads: Path, mirror: Path | None = None) -> bytes:
    """Return the unpacked contents of a file in the folder ``mirror`` or, if that is None, ``downloads``.

    It is downloaded to ``downloads`` if missing there.
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
    """Return the path of the complete, checked file in the folder ``out``; copy or download it if it is not there.

    If ``mirror`` is given, if WEIGHTS_MIRROR is set or if the file has a package, the file must be there; DATA_MIRROR
    may have it. Raises Unavailable if it cannot be fetched. Refuses to replace another file of its name, unless
    ``force``.
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
    """Say whether a file exists in the folder ``out`` (with any contents) or in a mirror folder."""
    try:
        return (out / file.name).is_file() or _find_in_mirror(file, mirror) is not None
    except Unavailable:
        return False


def in_package(file: PublishedFile) -> Path:
    """Return the path of the checked file in its Python package, none of whose code runs."""
    try:
        parts = metadata.files(file.package) or ()
    except metadata.PackageNotFoundError:
        parts = ()
    place = next((Path(part.locate()) for part in parts if part.name == file.name), None)
    if place is None or not place.is_file():
        raise ProgramError(
            f"{file.name}: the Python package {file.package}, which has it, is not installed: call make setup"
        )
    file.check(place)
    return place


def _find_in_mirror(file: PublishedFile, mirror: Path | None) -> Path | None:
    """Return the path of the file in a mirror folder, or None. A file of a package is only searched in ``mirror``.

    ``mirror`` or WEIGHTS_MIRROR, if given, must have it, else Unavailable is raised; DATA_MIRROR may have only
    datasets.
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
