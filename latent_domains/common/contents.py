"""What a result is made of: hashes by which other contents under the same names are noticed."""

import hashlib
import os
from collections.abc import Iterable


class Digest:
    """A hash of named contents in their order: other names, other contents or another order change it."""

    def __init__(self, named: Iterable[tuple[bytes | str, bytes | str]] = ()) -> None:
        self._hash = hashlib.sha256()
        for name, contents in named:
            self.add(name, contents)

    def add(self, name: bytes | str, contents: bytes | str) -> None:
        for part in (name, contents):
            data = os.fsencode(part) if isinstance(part, str) else part
            self._hash.update(len(data).to_bytes(8))  # so that no two lists look alike
            self._hash.update(data)

    def __str__(self) -> str:
        return self._hash.hexdigest()


def stamp(files: Iterable[str | os.PathLike[str]]) -> str:
    """A hash of the sizes, times and inodes of files. It costs no reading, and is another one if a file was changed.

    The time of change is in it, which no program can set: files that were replaced by others of the same size and the
    same time of modification, as archives bring them, have another one. So the same stamp means the same contents;
    another one, as of a copy, says nothing.
    """
    found = Digest()
    for file in files:
        try:
            status = os.stat(file)  # noqa: PTH116 (there may be a million)
        except OSError as error:
            found.add(file if isinstance(file, str) else os.fspath(file), error.strerror or "")
            continue
        found.add("", f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_ino}")
    return str(found)
