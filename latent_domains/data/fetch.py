"""Downloads: taken up again when the connection breaks, checked, and whole or absent."""

import gzip
import hashlib
import http.client
import ssl
import sys
import time
import urllib.request
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from urllib.error import HTTPError, URLError

from tqdm import tqdm

from latent_domains.common.files import write_aside
from latent_domains.common.program import ProgramError

ATTEMPTS = 4
"""Connections to one URL before the next one is tried; each goes on where the last one broke."""

TIMEOUT = 30
"""Seconds without a byte after which a connection counts as broken."""

_CHUNK = 1 << 16

_AGENT = "caffe-latent-domains"
"""Some servers refuse the name that urllib has."""

_NETWORK = (URLError, http.client.HTTPException, ConnectionError, TimeoutError, ssl.SSLError)
"""Errors of a connection; any other OSError is the disk's."""


class Unavailable(ProgramError):
    """No URL delivers the file: the message has what went wrong at each."""


def download(urls: Sequence[str], target: Path, check: Callable[[Path], None], *, pause: float = 1.0) -> None:
    """Download ``target`` from the first of ``urls`` that delivers it whole and as ``check`` wants it.

    ``check`` gets the file and raises ProgramError if it is the wrong one. ``pause`` seconds, doubled each time, lie
    between two attempts. Raises Unavailable if no URL does, and ProgramError if the disk fails, and leaves nothing
    then.
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
            f"{target.name} could not be had from its URLs (a folder that holds it can be named by "
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
    """Fetch what ``file`` still lacks. Raises one of _NETWORK."""
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
    """Raise ProgramError, naming ``name``, unless a file has these ``hashes``, by algorithm (sha1, sha256).

    If it is ``packed`` by gzip, they are of what it holds: copies of a file in circulation are packed differently.
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
