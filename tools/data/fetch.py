"""Downloads: resumed when the connection breaks, checked, and whole or absent."""

import hashlib
import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path

from tqdm import tqdm

from tools.data.homes import GzipFile
from tools.data.mnist import gunzip
from tools.files import write_aside
from tools.program import ProgramError

ATTEMPTS = 4
"""Connections to one home before the next one is tried; each goes on where the last one broke."""

TIMEOUT = 30
"""Seconds without a byte after which a connection counts as broken."""

_CHUNK = 1 << 16


class _HomeFailed(Exception):
    """A home cannot deliver the file; the next one may."""


def download(urls: Sequence[str], target: Path, check: Callable[[Path], None], *, pause: float = 1.0) -> None:
    """Download ``target`` from the first of ``urls`` that delivers it whole and as ``check`` wants it.

    ``check`` gets the file and raises ProgramError if it is the wrong one. ``pause`` seconds, doubled each time, lie
    between two attempts. Raises ProgramError with what went wrong at every home, and leaves nothing then.
    """
    failures = []
    with write_aside(target) as aside:
        for url in urls:
            try:
                _download_from(url, aside, pause)
                check(aside)
                return
            except (_HomeFailed, ProgramError) as failure:
                failures.append(f"\n  {url}: {failure}")
                aside.unlink(missing_ok=True)
            except OSError as error:  # the disk's, not the network's
                raise ProgramError(f"{target}: writing it failed: {error.strerror or error}") from error
        raise ProgramError(
            f"{target.name} could not be had from its homes (a folder that holds it can be named by --mirror or "
            f"DATA_MIRROR):{''.join(failures)}"
        )


def _download_from(url: str, file: Path, pause: float) -> None:
    """Fill ``file`` from one home. Raises _HomeFailed after ATTEMPTS connections or an answer that is final."""
    if not url.startswith(("http://", "https://")):
        raise _HomeFailed("only http and https are fetched")
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(pause * 2 ** (attempt - 1))
        try:
            _continue(url, file)
            return
        except urllib.error.HTTPError as error:
            reason = f"HTTP {error.code} {error.reason}"
            if error.code < 500 and error.code != 429:
                break
        except _Broken as broken:
            reason = str(broken)
    raise _HomeFailed(reason)


class _Broken(Exception):
    """The connection failed or ended before the file did."""


def _continue(url: str, file: Path) -> None:
    """Fetch what ``file`` still lacks. Raises _Broken or HTTPError; an OSError is then the disk's."""
    have = file.stat().st_size if file.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})  # noqa: S310
    try:
        response = urllib.request.urlopen(request, timeout=TIMEOUT)  # noqa: S310
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416:  # the part here is not a part of what is there
            file.unlink()
            raise _Broken("the file there is shorter than what had arrived") from error
        raise
    except (OSError, http.client.HTTPException) as error:
        raise _Broken(f"no connection: {getattr(error, 'reason', error)}") from error
    with response:
        if response.status != 206:
            have = 0  # the server sends the whole file whatever was asked for
        length = response.headers.get("Content-Length")
        total = have + int(length) if length is not None and length.isdigit() else None
        with (
            file.open("ab" if have else "wb") as out,
            tqdm(desc=url.rsplit("/", 1)[-1], total=total, initial=have, unit="B", unit_scale=True) as bar,
        ):
            while chunk := _read(response):
                out.write(chunk)
                have += len(chunk)
                bar.update(len(chunk))
    if total is not None and have < total:
        raise _Broken(f"the connection ended after {have} of {total} bytes")


def _read(response: http.client.HTTPResponse) -> bytes:
    try:
        return response.read(_CHUNK)
    except (OSError, http.client.HTTPException) as error:
        raise _Broken(f"the connection broke: {error}") from error


def unpacked(file: GzipFile, downloads: Path, mirror: Path | None = None) -> bytes:
    """Return the unpacked contents of a gzipped file, checked against its hash.

    It is read from ``mirror`` if that is given, else from ``downloads``, into which it is downloaded when missing.
    Raises ProgramError naming the file if it is missing, damaged or not the pinned one.
    """
    path = (mirror or downloads) / file.path
    if not path.is_file():
        if mirror is not None:
            raise ProgramError(f"{path}: not there; a mirror folder must hold {file.path}")
        download(file.homes, path, lambda aside: _check(file, str(path), aside) and None)
    return _check(file, str(path), path)


def _check(file: GzipFile, name: str, path: Path) -> bytes:
    """Return the unpacked contents of ``path`` if they are the pinned ones."""
    data = gunzip(name, path.read_bytes())
    found = hashlib.sha256(data).hexdigest()
    if found != file.sha256:
        raise ProgramError(f"{name}: the unpacked contents have sha256 {found}, expected {file.sha256}")
    return data
