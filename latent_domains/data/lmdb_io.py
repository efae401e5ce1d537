"""LMDBs as Caffe's Data layer, ``convert_imageset`` and ``compute_image_mean`` write and read them.

A record's key is ``%08d_name``; Caffe walks through the keys in their byte order, so the number is the order. Its value
is a serialised ``Datum``: raw ones hold a C×H×W block of uint8 (colour as B, G, R), encoded ones a JPEG or PNG file.
"""

import os
import re
import shutil
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from pathlib import Path

import cv2
import lmdb
import numpy as np
from caffe.proto.caffe_pb2 import Datum
from google.protobuf.message import DecodeError
from numpy.typing import NDArray
from tqdm import tqdm

from latent_domains.common.files import Digest, build_folder_aside
from latent_domains.common.program import ProgramError, from_root
from latent_domains.common.wording import by, some
from latent_domains.data.lmdb_folder import (
    MadeOf,
    Material,
    Note,
    is_lmdb,
    noted_contents,
    other_files,
    stamp_of,
    write_note,
)
from latent_domains.data.pixels import decoded

FIRST_MAP_SIZE = 64 << 20
"""Bytes of address space of a new LMDB; doubled whenever it is full."""

BATCH_BYTES = 1 << 20
"""Records are committed in transactions of at least this many bytes.

Unsynced commits cost next to nothing, and with small ones malloc reuses the pages LMDB copies records into: 2 GB of raw
images took 1 s of system time, with transactions of 16 MB 3 s.
"""


def image_datum(image: NDArray[np.uint8], label: int) -> Datum:
    """Return the raw Datum of an image, field for field as ``convert_imageset`` fills it.

    ``image`` is H×W×C (colour in BGR order) or H×W, uint8.
    """
    height, width = image.shape[:2]
    planes = cv2.split(image)  # twice as fast as a transposed copy
    return Datum(channels=len(planes), height=height, width=width, data=b"".join(planes), label=label, encoded=False)


def feature_datum(row: NDArray[np.float32], label: int) -> Datum:
    """Return the Datum of a row of features (n)."""
    return Datum(channels=len(row), height=1, width=1, float_data=row, label=label)


def encoded_datum(data: bytes, label: int) -> Datum:
    """Return the Datum of an encoded image file, field for field as ``convert_imageset`` fills it."""
    return Datum(data=data, label=label, encoded=True)


def datum_image(datum: Datum) -> NDArray[np.uint8]:
    """Return a Datum's image as C×H×W uint8, decoded if necessary. Raises ValueError if it has none."""
    if datum.encoded:
        try:
            image = decoded(datum.data, cv2.IMREAD_UNCHANGED)
        except cv2.error as error:
            raise ValueError(f"an encoded image that OpenCV refuses: {error.err}") from error
        if image is None:
            raise ValueError(f"{len(datum.data)} bytes marked as encoded that OpenCV cannot decode")
        return np.moveaxis(image, 2, 0) if image.ndim == 3 else image[np.newaxis]
    shape = (datum.channels, datum.height, datum.width)
    if len(datum.data) != shape[0] * shape[1] * shape[2]:
        raise ValueError(f"{len(datum.data)} bytes of data, expected {by(shape)}")
    return np.frombuffer(datum.data, np.uint8).reshape(shape)


def key_text(key: bytes) -> str:
    """Return a record's key as messages show it."""
    return repr(key.decode(errors="backslashreplace"))


def record_name(key: bytes) -> str:
    """Return the second part of a record's key: its name, without the number."""
    return os.fsdecode(re.sub(rb"^\d{8}_", b"", key))


class Writer:
    """Appends records to a new LMDB, in order, and commits them in batches. Made by ``create``."""

    def __init__(self, env: lmdb.Environment) -> None:
        self._env = env
        self._longest_key = env.max_key_size()
        self._batch: list[tuple[bytes, bytes]] = []
        self._batch_bytes = 0
        self._contents = Digest()
        self.records = 0
        self.note = Note()
        """The contents of the LMDB's note, except for its records' hash."""

    def put(self, name: str, datum: Datum | bytes) -> None:
        """Append one record: a Datum or its serialised bytes. ``name`` becomes the second part of its key.

        Refuses a key that is too long for LMDB.
        """
        number = b"%08d_" % self.records
        key = number + os.fsencode(name)
        if len(key) > self._longest_key:
            raise ProgramError(
                f"{name}: a name of {len(key) - len(number)} bytes, expected at most "
                f"{self._longest_key - len(number)} for a key of an LMDB: shorten names of folders and files"
            )
        value = datum if isinstance(datum, bytes) else datum.SerializeToString()
        self._contents.add(key, value)
        self._batch.append((key, value))
        self._batch_bytes += len(value)
        self.records += 1
        if self._batch_bytes >= BATCH_BYTES:
            self.commit()

    def commit(self) -> None:
        """Write the batch in one transaction; double the map and begin again each time it is full."""
        while self._batch:
            try:
                with self._env.begin(write=True) as transaction:
                    cursor = transaction.cursor()
                    for key, value in self._batch:
                        cursor.put(key, value, append=True)
            except lmdb.MapFullError:
                self._env.set_mapsize(2 * self._env.info()["map_size"])
            else:
                self._batch.clear()
                self._batch_bytes = 0

    def write_note(self, folder: Path) -> None:
        """Write the note, when the file is complete."""
        write_note(
            folder,
            replace(self.note, records=self.records, sha256=str(self._contents), stamp=stamp_of(folder)),
        )


@contextmanager
def create(path: Path, *, force: bool = False) -> Iterator[tuple[Writer, Path]]:
    """Yield a ``Writer`` of a new LMDB and the folder it grows in; rename that folder to ``path`` at the end.

    The note, and other files put into the folder, come with it (Caffe only reads ``data.mdb``). After an error or
    Ctrl-C nothing is left, and an older LMDB at ``path`` is unchanged.

    With ``force`` it replaces an LMDB, but never a folder with other files.
    """
    if force and path.exists() and (others := other_files(path)):
        raise ProgramError(
            f"{path}: found {some(others)}, expected an LMDB's files alone: --force removes nothing else"
        )
    # Nothing is synced before the end: the folder is not read until it is renamed.
    options = {"map_size": FIRST_MAP_SIZE, "readahead": False, "sync": False, "metasync": False, "lock": False}
    with build_folder_aside(path, force=force) as aside:
        try:
            with lmdb.open(str(aside), **options) as env:
                writer = Writer(env)
                yield writer, aside
                writer.commit()
                env.sync(True)
            writer.write_note(aside)
        except lmdb.Error as error:  # it calls a full disk an input/output error
            free = shutil.disk_usage(path.parent).free >> 20
            raise ProgramError(f"{path}: writing the LMDB failed: {error} ({free} MB are free on its disk)") from error
        # The folder may be read by others; only data.mdb counts.
        (aside / "lock.mdb").unlink(missing_ok=True)


_environments: dict[tuple[int, int], tuple[lmdb.Environment, int]] = {}
"""Open files (device, inode), each with its number of users: a process cannot open an LMDB twice."""

_environments_lock = threading.Lock()


@contextmanager
def _environment(folder: Path) -> Iterator[lmdb.Environment]:
    """Open an LMDB for reading, or share it with other readers in this process. Raises lmdb.Error."""
    status = (folder / "data.mdb").stat()
    key = (status.st_dev, status.st_ino)
    with _environments_lock:
        env, users = _environments.get(key) or (lmdb.open(str(folder), readonly=True, lock=False, readahead=True), 0)
        _environments[key] = env, users + 1
    try:
        yield env
    finally:
        with _environments_lock:
            env, users = _environments.pop(key)
            if users > 1:
                _environments[key] = env, users - 1
            else:
                env.close()


@contextmanager
def open_lmdb(path: Path) -> Iterator[tuple[lmdb.Environment, lmdb.Transaction]]:
    """Open an LMDB folder for reading, after a check that no read can go beyond the end of its file.

    Values are views of the file.
    """
    if not path.is_dir():
        found = "a file" if path.exists() else "nothing"
        raise ProgramError(f"{path}: found {found}, expected an LMDB folder")
    file = path / "data.mdb"
    if not is_lmdb(path):
        raise ProgramError(f"{path}: no data.mdb in it, expected an LMDB folder")
    if (lock := path / "lock.mdb").resolve().name != lock.name:
        raise ProgramError(f"{lock}: a link to {lock.readlink()}, into which Caffe would write: delete the link")
    size = file.stat().st_size
    try:
        with _environment(path) as env:
            page = env.stat()["psize"]
            expected = (env.info()["last_pgno"] + 1) * page
            if size < expected:  # a page beyond the end of the file would be a SIGBUS, not an error
                raise ProgramError(f"{file}: truncated: found {size} bytes, expected {expected}")
            if size % page:  # bytes were inserted or removed: pages would be read at wrong places
                raise ProgramError(f"{file}: damaged: found {size} bytes, expected whole pages of {page}")
            with env.begin(buffers=True) as transaction:
                yield env, transaction
    except lmdb.Error as error:
        raise ProgramError(f"{file}: {size} bytes that are not a whole LMDB: {error}") from error


def count(path: Path) -> int:
    """Return the number of records."""
    with open_lmdb(path) as (env, _):
        return int(env.stat()["entries"])


def count_filled(path: Path, made_by: str | None = None) -> int:
    """Return the number of records. Refuses an empty LMDB; ``made_by`` names, in messages, what builds it."""
    try:
        records = count(path)
    except ProgramError as error:
        if made_by is None:
            raise
        raise ProgramError(f"{error} (build it with: {made_by})") from error
    if records == 0:
        raise ProgramError(f"{path}: an LMDB without records, expected at least one")
    return records


def contents(path: Path) -> str:
    """Return the hash of all keys and values: from the note, if it is about this file, else from reading all."""
    return noted_contents(path) or _read_contents(path, stamp_of(path))


@cache
def _read_contents(path: Path, _stamp: str) -> str:
    with open_lmdb(path) as (env, transaction):
        entries = env.stat()["entries"]
        return str(Digest(tqdm(transaction.cursor(), f"hash {path.name}", entries, unit="rec", delay=2, leave=False)))


def material(*lmdbs: Path) -> Material:
    """Return LMDBs as the material of another one."""
    now = stamp_of(*lmdbs)

    def read_all() -> MadeOf:
        found = {from_root(path): contents(path) for path in lmdbs}
        return MadeOf(str(Digest(("", one) for one in found.values())), now, found)

    return Material(now, read_all)


def read(path: Path) -> Iterator[tuple[bytes, Datum]]:
    """Yield key and Datum of every record, in Caffe's order."""
    with open_lmdb(path) as (_, transaction):
        for key, value in transaction.cursor():
            try:
                datum = Datum.FromString(bytes(value))
            except DecodeError as error:
                name = key_text(bytes(key))
                raise ProgramError(
                    f"{path}: record {name} is not a Datum: expected an LMDB for Caffe's Data layer"
                ) from error
            yield bytes(key), datum


def keys(transaction: lmdb.Transaction) -> Iterator[bytes]:
    """Yield the key of every record, in Caffe's order."""
    return map(bytes, transaction.cursor().iternext(values=False))


def record_names(path: Path) -> Iterator[str]:
    """Yield the name of every record, in Caffe's order."""
    with open_lmdb(path) as (_, transaction):
        yield from map(record_name, keys(transaction))


def read_labels(path: Path, limit: int | None = None) -> NDArray[np.int64]:
    """Return the labels (n) of the first ``limit`` records, or of all, in Caffe's order."""
    return np.array([datum.label for _, datum in islice(read(path), limit)], np.int64)


def read_images(path: Path, limit: int | None = None) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the images (n×C×H×W, uint8, BGR) and labels (n) of the first ``limit`` records, or of all.

    Refuses images that differ in size.
    """
    images: list[NDArray[np.uint8]] = []
    labels: list[int] = []
    for key, datum in islice(read(path), limit):
        try:
            images.append(datum_image(datum))
        except ValueError as error:
            raise ProgramError(f"{path}: record {key_text(key)}: {error}") from error
        labels.append(datum.label)
        if images[-1].shape != images[0].shape:
            raise ProgramError(
                f"{path}: record {key_text(key)} is {images[-1].shape}, expected {images[0].shape} as the first"
            )
    return np.stack(images) if images else np.zeros((0, 0, 0, 0), np.uint8), np.array(labels, np.int64)


@dataclass(frozen=True)
class Description:
    """Contents of an LMDB of Caffe. Shape and storage are the first record's."""

    records: int
    shape: tuple[int, int, int]
    """Channels, height, width."""
    storage: str
    """raw, encoded or floats."""
    class_counts: dict[int, int]
    """Records of each label, sorted by label."""
    same_size: bool
    """Whether all records are stored like the first one and have its size. The size of encoded ones is not checked."""


def describe(path: Path) -> Description:
    """Describe an LMDB: parse every record, read all labels, but decode only the first image.

    Refuses an empty LMDB, and one without Datums of images or of floats, as ``domain_labels`` writes them.
    """
    counts: Counter[int] = Counter()
    first = shape = None
    same_size = True
    for key, datum in tqdm(read(path), desc=f"look at {path.name}", unit="img", delay=2, leave=False):
        counts[datum.label] += 1
        try:
            if first is None:
                first, shape = datum, _size(datum)
            elif _storage(datum) != _storage(first) or not (datum.encoded or _size(datum) == shape):
                same_size = False
        except ValueError as error:
            raise ProgramError(f"{path}: record {key_text(key)} is not an image for Caffe: {error}") from error
    if first is None or shape is None:
        raise ProgramError(f"{path}: an LMDB without records, expected at least one")
    return Description(counts.total(), shape, _storage(first), dict(sorted(counts.items())), same_size)


def _storage(datum: Datum) -> str:
    return "encoded" if datum.encoded else "raw" if datum.data else "floats"


def _size(datum: Datum) -> tuple[int, int, int]:
    """Return channels, height, width of a Datum; raise ValueError if its contents do not fill them."""
    if datum.encoded:
        channels, height, width = datum_image(datum).shape
        return channels, height, width
    size = (datum.channels, datum.height, datum.width)
    held = len(datum.data) or len(datum.float_data)
    if held == 0 or held != size[0] * size[1] * size[2]:
        raise ValueError(f"{held} values for {by(size)}")
    return size
