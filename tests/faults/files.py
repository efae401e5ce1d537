"""What may have happened to a file: each fault puts something else in its place, by a seed."""

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

from latent_domains.common.files import remove

Fault = Callable[[Path, Random, Path], None]
"""A fault of a file of its own; the last path is the folder of all valid inputs."""


def _written(change: Callable[[bytes, Random], bytes]) -> Fault:
    """A fault that writes other bytes. The file is a new one: what was linked to it stays."""

    def fault(file: Path, rng: Random, _: Path) -> None:
        data = change(file.read_bytes(), rng)
        file.unlink()
        file.write_bytes(data)

    return fault


def _replaced(make: Callable[[Path, Random, Path], object]) -> Fault:
    """A fault after which something else has the file's name."""

    def fault(file: Path, rng: Random, base: Path) -> None:
        remove(file)
        make(file, rng, base)

    return fault


def _flipped(data: bytes, rng: Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 8))):
        place = rng.randrange(min(len(changed), rng.choice((100, len(changed)))))
        changed[place] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _overwritten(data: bytes, rng: Random) -> bytes:
    size = min(len(data), rng.choice((4, 64, 4096)))
    place = rng.randrange(len(data) - size + 1)
    return data[:place] + rng.choice((rng.randbytes(size), b"\0" * size)) + data[place + size :]


def _begins_huge(data: bytes, rng: Random) -> bytes:
    """Bytes of ones where sizes, counts and offsets stand in binary headers."""
    place, size = rng.randrange(min(64, len(data))), rng.choice((1, 4, 8))
    return data[:place] + b"\xff" * size + data[place + size :]


_NUMBERS = (b"0", b"-1", b"1e308", b"NaN", b"99999999999999999999", b"0.5", b"1" + b"0" * 5000, b'"7"', b"null", b"3")


def _other_number(data: bytes, rng: Random) -> bytes:
    found = list(re.finditer(rb"-?\b\d+(\.\d+)?\b", data[:1_000_000]))
    if not found:
        return _flipped(data, rng)
    place = rng.choice(found)
    return data[: place.start()] + rng.choice(_NUMBERS) + data[place.end() :]


def _line(change: Callable[[list[bytes], int], list[bytes]]) -> Fault:
    def changed(data: bytes, rng: Random) -> bytes:
        lines = data.splitlines(keepends=True)
        return b"".join(change(lines, rng.randrange(len(lines))))

    return _written(changed)


_DEEP = (b"[" * 200_000, b'{"a":' * 200_000, b"layer {" * 200_000, b"? " * 20_000)


def _of_another_kind(file: Path, rng: Random, base: Path) -> None:
    others = [other for other in sorted(base.rglob("*")) if other.is_file() and other.suffix != file.suffix]
    shutil.copyfile(rng.choice(others), file)


def _of_another_net(file: Path, rng: Random, base: Path) -> None:
    """The same kind of file of another run, with another k, other shapes, other images."""
    others = [other for other in sorted((base / "other").rglob(f"*{file.suffix}")) if other.is_file()]
    shutil.copyfile(rng.choice(others or sorted((base / "other").glob("model.*"))), file)


def _sparse(file: Path, _: Random, __: Path) -> None:
    file.touch()
    os.truncate(file, 1 << 36)


PLAIN: dict[str, Fault] = {
    "missing": _replaced(lambda *_: None),
    "empty": _replaced(lambda file, *_: file.touch()),
    "a folder": _replaced(lambda file, *_: file.mkdir()),
    "a FIFO": _replaced(lambda file, *_: os.mkfifo(file)),
    "a link to nowhere": _replaced(lambda file, *_: file.symlink_to("nowhere")),
    "a link to itself": _replaced(lambda file, *_: file.symlink_to(file.name)),
    "a link to an endless device": _replaced(lambda file, *_: file.symlink_to("/dev/zero")),
    "unreadable": lambda file, *_: file.chmod(0),
    "64 GB of nothing": _replaced(_sparse),
    "random bytes": _written(lambda data, rng: rng.randbytes(rng.choice((1, 100, len(data))))),
    "another kind of file": _replaced(_of_another_kind),
}
"""No program can do with such a file what it would do with the right one: it says so, or did not need it."""

SUBTLE: dict[str, Fault] = {
    "truncated": _written(lambda data, rng: data[: rng.randrange(len(data))]),
    "bits flipped": _written(_flipped),
    "bytes overwritten": _written(_overwritten),
    "huge numbers in the header": _written(_begins_huge),
    "rubbish at the end": _written(lambda data, rng: data + rng.randbytes(rng.choice((1, 1000)))),
    "twice": _written(lambda data, _: data + data),
    "another number": _written(_other_number),
    "a line missing": _line(lambda lines, i: lines[:i] + lines[i + 1 :]),
    "a line twice": _line(lambda lines, i: [*lines[: i + 1], *lines[i:]]),
    "of another net": _replaced(_of_another_net),
    "Latin-1": _written(lambda data, rng: (b"\xe9\xfc" + data) if rng.random() < 0.5 else data + b"\xe9\n"),
    "UTF-16": _written(lambda data, _: data[:10000].decode("latin-1").encode("utf-16")),
    "zero bytes within": _written(lambda data, rng: data[: (i := rng.randrange(len(data)))] + b"\0\0" + data[i:]),
    "nested deeply": _written(lambda data, rng: rng.choice(_DEEP)),
    "a line of 30 MB": _written(lambda data, _: b"a" * 30_000_000),
}
"""Whether such a file can be told from a right one depends on its format: a program ends well, or in one clear line."""
