"""Output that is either whole or absent: written aside, then renamed."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.program import ProgramError


@contextmanager
def write_aside(path: Path) -> Iterator[Path]:
    """Yield a temporary file name beside ``path``; rename it to ``path`` on success, remove it otherwise."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
        aside = Path(folder) / path.name
        yield aside
        aside.replace(path)


@contextmanager
def build_folder_aside(path: Path, *, force: bool = False) -> Iterator[Path]:
    """Yield a temporary folder beside ``path``; rename it to ``path`` on success, remove it otherwise.

    Raises ProgramError if ``path`` exists and ``force`` is false; with ``force`` the old one is replaced, but only
    once the new one is whole.
    """
    if path.exists() and not force:
        raise ProgramError(f"{path} exists already: choose another name or pass --force to replace it")
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
        aside = Path(folder) / "new"
        aside.mkdir()
        yield aside
        if path.exists():
            path.rename(Path(folder) / "old")
        aside.rename(path)


def write_text(path: Path, text: str) -> None:
    """Write a text file aside and rename it."""
    with write_aside(path) as aside:
        aside.write_text(text)


def remove(path: Path) -> None:
    """Remove a file or a folder tree, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
