#!/usr/bin/env python3
"""Unpack the source of Caffe, BVLC/caffe at 99bd997, from an archive or from the first home that delivers it.

docker/caffe_source.py [--seconds N] FOLDER ARCHIVE URL…

ARCHIVE is what was fetched before, or becomes it. Archives of the same files differ in their bytes, so what is checked
is the hash that git has for the tree; nothing is written before. N is how long one home may take (300).
"""

import argparse
import hashlib
import http.client
import io
import sys
import tarfile
import time
import urllib.request
import zlib
from pathlib import Path, PurePosixPath

TREE = "660066a34ecbb387946ab4feede1b916ef0bcfa5"
"""``git rev-parse 99bd997^{tree}``"""
LARGEST = 1 << 26
SILENCE = 30
"""Bytes that an archive may have, it has 8.5 million; seconds without any after which a home is given up."""

Files = dict[PurePosixPath, tuple[bytes, bool]]
"""Contents by path, and whether the file is a program."""


class Refused(Exception):
    """This is not Caffe's source."""


def fetch(url: str, seconds: float) -> bytes:
    """Return what ``url`` delivers. Raises Refused, OSError or HTTPException."""
    if not url.startswith(("http://", "https://")):
        raise Refused("only http and https are fetched")
    end = time.monotonic() + seconds
    request = urllib.request.Request(url, headers={"User-Agent": "caffe-latent-domains"})  # noqa: S310
    packed = bytearray()
    with urllib.request.urlopen(request, timeout=min(SILENCE, seconds)) as response:  # noqa: S310
        length = int(response.headers.get("Content-Length") or 0)
        while chunk := response.read1(1 << 16):
            packed += chunk
            if time.monotonic() > end or len(packed) > LARGEST:
                raise Refused(f"too slow or too large: {len(packed)} bytes in {seconds:g} s at most")
    if len(packed) < length:
        raise Refused(f"the connection ended after {len(packed)} of {length} bytes")
    return bytes(packed)


def read(packed: bytes) -> Files:
    """Return the files of an archive, without a folder around them all. Raises Refused unless they are Caffe's."""
    if packed.lstrip()[:1] == b"<":
        raise Refused("a web page, not an archive")
    files: Files = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(packed), mode="r:gz") as archive:
            for member in archive:
                if contents := archive.extractfile(member):
                    files[PurePosixPath(member.name)] = contents.read(), bool(member.mode & 0o100)
    except (tarfile.TarError, EOFError, OSError, zlib.error, KeyError) as error:
        raise Refused(f"not a whole archive ({len(packed)} bytes): {error}") from error
    if len({path.parts[0] for path in files}) == 1:
        files = {path.relative_to(path.parts[0]): file for path, file in files.items()}
    if (found := hash_of(files).hex()) != TREE:
        raise Refused(f"other files: their tree is {found}, expected {TREE}")
    return files


def hash_of(files: Files) -> bytes:
    """Return git's hash of a tree."""
    entries: dict[str, tuple[str, bytes]] = {}
    folders: dict[str, Files] = {}
    for path, (contents, program) in files.items():
        if len(path.parts) > 1:
            folders.setdefault(path.parts[0], {})[path.relative_to(path.parts[0])] = contents, program
        else:
            entries[path.name] = ("100755" if program else "100644"), _hash("blob", contents)
    # Git sorts a folder as if its name ended in a slash.
    entries |= {f"{name}/": ("40000", hash_of(inside)) for name, inside in folders.items()}
    lines = (f"{mode} {name.rstrip('/')}\0".encode() + sha for name, (mode, sha) in sorted(entries.items()))
    return _hash("tree", b"".join(lines))


def _hash(kind: str, contents: bytes) -> bytes:
    return hashlib.sha1(f"{kind} {len(contents)}\0".encode() + contents, usedforsecurity=False).digest()


def obtain(archive: Path, urls: list[str], seconds: float) -> Files:
    """Return the files of ``archive``, fetched first where it is missing or wrong. Raises Refused if no home has it."""
    failures = []
    for place in [archive, *urls]:
        try:
            packed = place.read_bytes() if isinstance(place, Path) else fetch(place, seconds)
            files = read(packed)
        except FileNotFoundError:
            continue
        except (Refused, OSError, http.client.HTTPException) as error:
            failures.append(f"\n  {place}: {error}")
            continue
        if place is not archive:
            archive.parent.mkdir(parents=True, exist_ok=True)
            aside = archive.with_name(f"{archive.name}.new")
            aside.write_bytes(packed)
            aside.replace(archive)
        return files
    raise Refused(
        f"Caffe's source could not be had; CAFFE_SRC=DIR builds from a checkout of BVLC/caffe at 99bd997."
        f" It was looked for in{''.join(failures)}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("folder", type=Path)
    parser.add_argument("archive", type=Path)
    parser.add_argument("urls", nargs="*")
    options = parser.parse_args()
    try:
        files = obtain(options.archive, options.urls, options.seconds)
    except Refused as error:
        sys.exit(str(error))
    for path, (contents, program) in files.items():
        file = options.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(contents)
        file.chmod(0o755 if program else 0o644)


if __name__ == "__main__":
    main()
