"""Files: written completely or not at all, read with clear errors, hashed."""

import csv
import errno
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Any, TypeVar

from latent_domains.common.program import ProgramError

Contents = TypeVar("Contents", bytes, str)


@contextmanager
def write_aside(path: Path) -> Iterator[Path]:
    """Yield a temporary file name beside ``path``; rename it to ``path`` on success, remove it otherwise."""
    with write_together(path, force=True) as (aside,):
        yield aside


@contextmanager
def write_together(*paths: Path, force: bool = False) -> Iterator[tuple[Path, ...]]:
    """Yield a temporary file name beside each of ``paths``; rename them all on success, remove them all otherwise.

    Refuses a folder, and a file that exists unless ``force`` is true.
    """
    check_free(*paths, force=force)
    with ExitStack() as stack:
        asides: list[Path] = []
        for path in paths:
            asides.append(stack.enter_context(_folder_beside(path)) / path.name)
        try:
            yield tuple(asides)
        except OSError:
            begun = [path for aside, path in zip(asides, paths, strict=True) if aside.exists()]
            with naming(begun[-1] if begun else paths[0]):
                raise
        for aside, path in zip(asides, paths, strict=True):
            aside.replace(path)


def expect_file(path: Path, expected: str, *, missing_ok: bool = False) -> None:
    """Raise ProgramError unless ``path`` is a regular file; ``expected`` describes the file in the message.

    Refuses FIFOs and devices, which may have no end. With ``missing_ok`` the file may be missing, but a broken link is
    an error.
    """
    if not path.is_file() and (os.path.lexists(path) or not missing_ok):
        found = "a folder" if path.is_dir() else "no regular file" if path.exists() else "no such file"
        raise ProgramError(f"{path}: {found}, expected {expected}")


def expect_no_link(path: Path) -> None:
    """Raise ProgramError if ``path`` is a link: writing into it would change a file elsewhere."""
    if path.is_symlink():
        raise ProgramError(f"{path}: a link to {path.readlink()}, expected a file here: delete the link")


def check_free(*paths: Path, force: bool = False, inputs: Iterable[Path] = ()) -> None:
    """Raise ProgramError if one of ``paths`` is among ``inputs``, is not a file, or exists while ``force`` is false."""
    read = {path.resolve() for path in inputs}
    for path in paths:
        if path.resolve() in read:
            raise ProgramError(f"{path}: it is an input file, choose another name for the output")
        if path.is_dir():
            raise ProgramError(f"{path}: a folder is there, expected to write a file of this name")
        if path.exists() and not path.is_file():  # such as /dev/null, which others need
            raise ProgramError(f"{path}: it exists and is not a regular file, choose another name")
        check_new(path, force=force)


def check_new(path: Path, *, force: bool) -> None:
    """Raise ProgramError if ``path`` exists and ``force`` is false."""
    if path.exists() and not force:
        raise ProgramError(f"{path} exists already: choose another name or pass --force to replace it")


def check_apart(folders: Sequence[Path], expected: str) -> None:
    """Raise ProgramError if a folder is given twice or lies in another; ``expected`` says what they should be."""
    for one, other in permutations(folders, 2):
        place, outer = one.resolve(), other.resolve()
        if place.is_relative_to(outer):
            relation = "is given twice" if place == outer else f"lies in {other}"
            raise ProgramError(f"{one} {relation}: expected {expected}")


def check_named(path: Path) -> None:
    """Raise ProgramError if a new folder would be called ``.`` or ``..``: nothing can be renamed to that."""
    if path.name in ("", ".."):
        raise ProgramError(f"{path}: found no folder name at the end, expected one, such as ../photo")


@contextmanager
def build_folder_aside(path: Path, *, force: bool = False) -> Iterator[Path]:
    """Yield a temporary folder beside ``path``; rename it to ``path`` on success, remove it otherwise.

    With ``force`` it replaces an old folder, but only when the new one is complete. Without, refuses a folder that is
    not empty. Refuses a broken link, and a path without a name, in any case.
    """
    check_named(path)
    if not is_absent(path):
        check_new(path, force=force)
    if path.is_symlink() and not path.exists():
        raise ProgramError(f"{path}: a link that leads nowhere, expected to make a folder of this name")
    path = path.parent.resolve() / path.name  # `..` would stop to work if the current folder is in the old one
    with naming(path), _folder_beside(path) as folder:
        aside = folder / "new"
        aside.mkdir()
        yield aside
        old = folder / "old"
        try:
            if not is_absent(path):
                if not force:
                    raise ProgramError(f"{path}: another process made it meanwhile: it was not replaced")
                path.rename(old)
            aside.rename(path)
        except BaseException:
            if old.exists() and not path.exists():
                old.rename(path)
            raise


def is_absent(path: Path) -> bool:
    """Say whether there is nothing at ``path``, or an empty folder, as Snakemake makes for a job's output."""
    return not path.exists() or (path.is_dir() and not path.is_symlink() and not any(path.iterdir()))


@contextmanager
def _folder_beside(path: Path) -> Iterator[Path]:
    """Yield a temporary folder beside ``path``. It remains if the process is killed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with naming(path):
        temporary = tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent)
    with temporary as folder:
        yield Path(folder)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Add the name ``path`` to errors of the disk that name no file."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO):
            error.filename = str(path)
        raise


def sha256(file: Path) -> str:
    """Return the hash of a file's contents, in hexadecimal digits."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def read_bytes(path: Path) -> bytes:
    """Return the contents of a file. Refuses a file that is larger than the memory."""
    return _read(path, Path.read_bytes)


def read_text(path: Path, encoding: str | None = None) -> str:
    """Return the text in a file, as :func:`read_bytes` reads it."""
    return _read(path, partial(Path.read_text, encoding=encoding))


def _read(path: Path, read: Callable[[Path], Contents]) -> Contents:
    try:
        return read(path)
    except MemoryError as error:
        raise ProgramError(f"{path}: not enough memory for {path.stat().st_size} bytes") from error


def write_text(path: Path, text: str) -> None:
    """Write a text file aside and rename it."""
    with write_aside(path) as aside:
        aside.write_text(text)


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> int:
    """Write a table aside and rename it; return its number of rows. File names in it may have bytes of any encoding."""
    count = 0
    with write_aside(path) as aside, aside.open("w", newline="", errors="surrogateescape") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        for count, row in enumerate(rows, 1):  # noqa: B007
            writer.writerow(row)
    return count


def json_text(values: Any) -> str:
    """Return indented JSON that ends in a newline, with each list of numbers on one line."""
    text = json.dumps(values, indent=2)
    # JSON's texts have no raw line breaks, so only lists match.
    return re.sub(r"\[\n[-+\d.eE,\s]*\]", lambda found: f"[{' '.join(found[0][1:-1].split())}]", text) + "\n"


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file."""
    expect_file(path, "a file of JSON", missing_ok=True)
    try:
        values = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:  # RecursionError: nested too deeply
        raise ProgramError(f"{path}: not valid JSON: {error}") from error
    if not isinstance(values, dict):
        raise ProgramError(f"{path}: found {type(values).__name__}, expected a JSON object")
    return values


def remove(path: Path) -> None:
    """Remove a file or a folder tree, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


class Digest:
    """A hash of named contents. It changes with the names, the contents and their order."""

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
    """Return a hash of the sizes, times and inodes of files. It reads no contents, and changes if a file was changed.

    It includes the time of the last change of status, which no program can set. So it also changes when a file is
    replaced by one of the same size and modification time, as from an archive. Equal stamps mean equal contents;
    different stamps, as of a copy, mean nothing.
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
