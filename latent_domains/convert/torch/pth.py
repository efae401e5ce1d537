"""Files of ``torch.save``: zip archives (PyTorch 1.6 and later) and what came before, pickles with storages after them.

The pickle holds what was saved and refers to storages by key. In the archive each storage is a member; before, the
pickle is the fourth of five (magic number, protocol, system, what was saved, the storages' keys), and the storages
follow in the order of the keys, each after its number of numbers.
"""

import io
import struct
import zipfile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latent_domains.convert.torch.pickles import Storage, load, make_storage
from latent_domains.convert.torch.tensors import RAW, CheckpointError
from latent_domains.convert.torch.words import plain, shown

MAGIC = 0x1950A86A20F9469CFC6C
"""The first object of the old format."""

_PROTOCOL = 1001


def read_zip(data: bytes) -> Any:
    """What was saved in a zip archive. Raises CheckpointError if it is damaged or none of PyTorch's."""
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except (zipfile.BadZipFile, OSError, ValueError, OverflowError, NotImplementedError) as error:
        raise CheckpointError(f"a damaged or truncated zip archive: {plain(str(error))}") from error
    names = [name for name in archive.namelist() if name == "data.pkl" or name.endswith("/data.pkl")]
    if len(names) != 1:
        raise CheckpointError("a zip archive, but none of PyTorch's: expected one data.pkl in it")
    folder = names[0].removesuffix("data.pkl")
    if f"{folder}byteorder" in archive.namelist() and _member(archive, f"{folder}byteorder") != b"little":
        raise CheckpointError("written on a big-endian machine, expected little-endian numbers")
    storages: dict[tuple[str, str, int], Storage] = {}

    def numbers(storage: Storage) -> NDArray:
        found = _member(archive, f"{folder}data/{storage.key}")
        if len(found) != storage.bytes:
            raise CheckpointError(
                f"storage {plain(storage.key)}: {len(found)} bytes, expected {storage.size} numbers of {storage.kind}"
            )
        return np.frombuffer(found, RAW[storage.kind])

    def storage(pid: tuple[Any, ...]) -> Storage:
        made = make_storage(pid, numbers)
        return storages.setdefault((made.key, made.kind, made.size), made)

    return load(io.BytesIO(_member(archive, names[0])), storage)


def _member(archive: zipfile.ZipFile, name: str) -> bytes:
    """Contents of a member. PyTorch never compresses: what does could be of any size."""
    try:
        info = archive.getinfo(name)
        if info.compress_type != zipfile.ZIP_STORED:
            raise CheckpointError(f"{plain(name)} is compressed, expected it stored as PyTorch does")
        return archive.read(info)
    except KeyError as error:
        raise CheckpointError(f"the archive lacks {plain(name)}") from error
    except (zipfile.BadZipFile, EOFError, OSError, RuntimeError, ValueError, OverflowError, struct.error) as error:
        raise CheckpointError(f"{plain(name)} is damaged: {plain(str(error) or 'it ends too early')}") from error


def is_legacy(data: bytes) -> bool:
    """Whether a file begins as the old format does: with the magic number, pickled by itself."""
    try:
        return load(io.BytesIO(data[:64]), _no_storage) == MAGIC
    except CheckpointError:
        return False


def read_legacy(data: bytes) -> Any:
    """What was saved in the old format. Raises CheckpointError if it is damaged."""
    file = io.BytesIO(data)
    magic, protocol, system = (load(file, _no_storage) for _ in range(3))
    if magic != MAGIC or protocol != _PROTOCOL:
        raise CheckpointError(
            f"magic number {shown(magic)} and protocol {shown(protocol)}, expected {MAGIC} and {_PROTOCOL}"
        )
    if not isinstance(system, dict) or system.get("little_endian") is not True:
        raise CheckpointError("written on a big-endian machine, expected little-endian numbers")
    storages: dict[str, Storage] = {}
    places: dict[str, int] = {}

    def numbers(storage: Storage) -> NDArray:
        if storage.key not in places:
            raise CheckpointError(f"the file lacks storage {plain(storage.key)}")
        return np.frombuffer(data, RAW[storage.kind], storage.size, places[storage.key])

    def storage(pid: tuple[Any, ...]) -> Storage:
        made = make_storage(pid, numbers)
        known = storages.setdefault(made.key, made)
        if (known.kind, known.size) != (made.kind, made.size):
            raise CheckpointError(f"storage {plain(made.key)}: described in two ways")
        return known

    saved = load(file, storage)
    keys = load(file, _no_storage)
    if not isinstance(keys, list):
        raise CheckpointError("the keys of its storages are no list")
    for key in keys:
        if not isinstance(key, str) or key not in storages:
            raise CheckpointError(f"it has a storage {shown(key)} that no tensor is part of")
        place = file.tell() + 8
        if place + storages[key].bytes > len(data):
            raise CheckpointError(
                f"truncated: {len(data)} bytes, expected storage {plain(key)} to end at byte "
                f"{place + storages[key].bytes}"
            )
        size = int.from_bytes(file.read(8), "little")
        if size != storages[key].size:
            raise CheckpointError(f"storage {plain(key)}: damaged, of {size} numbers, expected {storages[key].size}")
        places[key] = place
        file.seek(place + storages[key].bytes)
    return saved


def _no_storage(_: tuple[Any, ...]) -> Storage:
    raise CheckpointError("a storage where there should be none")
