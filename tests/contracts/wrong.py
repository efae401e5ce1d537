"""What may have happened to a file that a program reads: each returns what does it in a folder of inputs."""

import json
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from latent_domains.common.files import remove
from latent_domains.data import lmdb_io

Wrong = Callable[[Path], object]


def missing(name: str) -> Wrong:
    return lambda folder: remove(folder / name)


def cut(name: str, share: float = 0.5) -> Wrong:
    """Keep the file's beginning alone. It is a new file: what was linked to it stays."""

    def wrong(folder: Path) -> None:
        data = (folder / name).read_bytes()
        written(name, data[: int(share * len(data))])(folder)

    return wrong


def written(name: str, contents: str | bytes) -> Wrong:
    """Put another file in its place."""

    def wrong(folder: Path) -> None:
        remove(folder / name)
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(contents if isinstance(contents, bytes) else contents.encode())

    return wrong


def of_another_kind(name: str) -> Wrong:
    """A picture of another format, or text in place of a picture."""
    return written(name, "a,b\n1,2\n" if name.endswith((".png", ".mdb")) else b"\x89PNG\r\n\x1a\n" + bytes(range(256)))


def edited(name: str, old: str, new: str) -> Wrong:
    def wrong(folder: Path) -> None:
        text = (folder / name).read_text()
        assert old in text
        (folder / name).write_text(text.replace(old, new))

    return wrong


def changed(name: str, **values: object) -> Wrong:
    """Other values in a JSON file; a dictionary replaces some values of one."""

    def wrong(folder: Path) -> None:
        found = json.loads((folder / name).read_text())
        for key, value in values.items():
            found[key] = {**found[key], **value} if isinstance(value, dict) else value
        (folder / name).write_text(json.dumps(found))

    return wrong


def arrays(name: str, **values: object) -> Wrong:
    return lambda folder: np.savez(folder / name, **values)


def lmdb_of(name: str, rows: Sequence[Sequence[float]], labels: Iterable[int]) -> Wrong:
    """An LMDB of other features."""

    def wrong(folder: Path) -> None:
        remove(folder / name)
        with lmdb_io.create(folder / name) as (writer, _):
            for i, (row, label) in enumerate(zip(rows, labels, strict=True)):
                writer.put(f"{i}.jpg", lmdb_io.feature_datum(np.array(row, np.float32), label))

    return wrong


def copied(source: str, target: str) -> Wrong:
    """A file or folder has a second place."""

    def wrong(folder: Path) -> None:
        (folder / target).parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (folder / source).is_dir() else shutil.copy)(folder / source, folder / target)

    return wrong
