"""Hashes of what a result is made of. They show if files of the same names have other contents now."""

import hashlib
import os
from collections.abc import Iterable


class Digest:
    """A hash of named contents. It changes with a name, with contents, and with the order."""

    def __init__(self, named: Iterable[tuple[bytes | str, bytes | str]] = ()) -> None:
        self._hash = hashlib.sha256()
        for name, contents in named:
            self.add(name, contents)

    def add(self, name: bytes | str, contents: bytes | str) -> None:
        for part in (name, contents):
            data = os.fsencode(part) if isinstance(part, str) else part
            self._hash.update(len(data).to_bytes(8))  # so that different lists never give the same bytes
            self._hash.update(data)

    def __str__(self) -> str:
        return self._hash.hexdigest()


def stamp(files: Iterable[str | os.PathLike[str]]) -> str:
    """A hash of the sizes, times and inodes of files. It reads no contents, and changes if a file was changed.

    It includes the time of the last change of status, which no program can set. So it also notices a file that was
    replaced by one of the same size and time of modification, as from an archive. The same stamp means the same
    contents; another stamp, as a copy has, says nothing.
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
