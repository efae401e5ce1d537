"""A published file of a data set: had from a mirror or downloaded, unpacked if it is gzipped, and checked."""

import gzip
import hashlib
import zlib
from dataclasses import dataclass
from pathlib import Path

from latent_domains.common.program import ProgramError
from latent_domains.data.fetch import download


@dataclass(frozen=True)
class PinnedFile:
    """A file of a data set."""

    path: str
    """Its place under the mirror or download folder; it is gzipped if the name ends in .gz."""
    sha256: str
    """Of the unpacked contents: copies of MNIST in circulation are packed differently."""
    urls: tuple[str, ...]
    """Tried in this order."""


def unpacked(file: PinnedFile, downloads: Path, mirror: Path | None = None) -> bytes:
    """Return the contents of a file, unpacked and checked against its hash.

    It is read from ``mirror`` if that is given, else from ``downloads``, into which it is downloaded when missing.
    Raises ProgramError naming the file if it is missing, damaged or not the pinned one.
    """
    path = (mirror or downloads) / file.path
    if not path.is_file():
        if mirror is not None:
            raise ProgramError(f"{path}: not there; a mirror folder must hold {file.path}")
        download(file.urls, path, lambda aside: _check(file, str(path), aside) and None)
    return _check(file, str(path), path)


def _check(file: PinnedFile, name: str, path: Path) -> bytes:
    """Return the unpacked contents of ``path`` if they are the pinned ones."""
    data = path.read_bytes()
    if file.path.endswith(".gz"):
        data = gunzip(name, data)
    found = hashlib.sha256(data).hexdigest()
    if found != file.sha256:
        raise ProgramError(f"{name}: the unpacked contents have sha256 {found}, expected {file.sha256}")
    return data


def gunzip(name: str, packed: bytes) -> bytes:
    """Unpack a whole gzip file. Raises ProgramError naming ``name`` if it is damaged or cut short."""
    try:
        return gzip.decompress(packed)
    except (OSError, EOFError, zlib.error) as error:
        raise ProgramError(f"{name}: not a whole gzip file ({len(packed)} bytes): {error}") from error
