"""Files of ``torch.save``: zip archives (PyTorch 1.6 and later) and, before, pickles with storages after them.

The pickle holds what was saved and refers to storages by key. In the archive each storage is a member. In the old
format the pickle is the fourth of five: magic number, protocol, system, what was saved, the storages' keys. The
storages follow in the order of the keys, each after its number of numbers.
"""

import io
import struct
import zipfile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latent_domains.convert.torch.pickles import load
from latent_domains.convert.torch.tensors import CheckpointError, escaped

MAGIC = 0x1950A86A20F9469CFC6C
"""The first object of the old format."""

_PROTOCOL = 1001


def read_zip(data: bytes) -> Any:
    """Read the object in a zip archive. Raises CheckpointError if it is damaged or none of PyTorch's."""
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except (zipfile.BadZipFile, OSError, ValueError, OverflowError, NotImplementedError) as error:
        raise CheckpointError(f"a damaged or truncated zip archive: {escaped(str(error))}") from error
    names = [name for name in archive.namelist() if name == "data.pkl" or name.endswith("/data.pkl")]
    if len(names) != 1:
        raise CheckpointError("a zip archive, but none of PyTorch's: expected one data.pkl in it")
    folder = names[0].removesuffix("data.pkl")
    if f"{folder}byteorder" in archive.namelist() and _member(archive, f"{folder}byteorder") != b"little":
        raise CheckpointError("written on a big-endian machine, expected little-endian numbers")

    def storage(key: str, dtype: np.dtype, size: int) -> NDArray:
        found = _member(archive, f"{folder}data/{key}")
        if len(found) != size * dtype.itemsize:
            raise CheckpointError(f"storage {escaped(key)}: {len(found)} bytes, expected {size} numbers of {dtype}")
        return np.frombuffer(found, dtype)

    return load(io.BytesIO(_member(archive, names[0])), storage)


def _member(archive: zipfile.ZipFile, name: str) -> bytes:
    """Contents of a member. PyTorch never compresses: what does could be of any size."""
    try:
        info = archive.getinfo(name)
        if info.compress_type != zipfile.ZIP_STORED:
            raise CheckpointError(f"{escaped(name)} is compressed, expected it stored as PyTorch does")
        return archive.read(info)
    except KeyError as error:
        raise CheckpointError(f"the archive lacks {escaped(name)}") from error
    except (zipfile.BadZipFile, EOFError, OSError, RuntimeError, ValueError, OverflowError, struct.error) as error:
        raise CheckpointError(f"{escaped(name)} is damaged: {escaped(str(error) or 'it ends too early')}") from error


def is_legacy(data: bytes) -> bool:
    """Whether a file begins as the old format does: with the magic number, pickled by itself."""
    try:
        return load(io.BytesIO(data[:64])) == MAGIC
    except CheckpointError:
        return False


def read_legacy(data: bytes) -> Any:
    """Read the object in a file of the old format. Raises CheckpointError if it is damaged."""
    file = io.BytesIO(data)
    magic, protocol, system = (load(file) for _ in range(3))
    if (magic, protocol) != (MAGIC, _PROTOCOL) or not isinstance(system, dict) or not system.get("little_endian"):
        raise CheckpointError("another magic number, protocol or order of bytes, expected PyTorch's, little-endian")
    storages: dict[str, NDArray] = {}

    def storage(key: str, dtype: np.dtype, size: int) -> NDArray:
        """Room for the numbers, which come later in the file."""
        if size * dtype.itemsize > len(data):
            raise CheckpointError(f"truncated: {len(data)} bytes, expected storage {escaped(key)} of {size} numbers")
        return storages.setdefault(key, np.empty(size, dtype))

    saved, keys = load(file, storage), load(file)
    if not isinstance(keys, list) or {key if isinstance(key, str) else None for key in keys} != storages.keys():
        raise CheckpointError(
            "the list of its storages is not that of its tensors: it is damaged, or some numbers are complex, "
            "quantised or of 8 bits, which only newer files may have"
        )
    for key in keys:
        numbers, place = storages[key], file.tell() + 8
        if place + numbers.nbytes > len(data):
            raise CheckpointError(
                f"truncated: {len(data)} bytes, expected storage {escaped(key)} to end at byte {place + numbers.nbytes}"
            )
        size = int.from_bytes(file.read(8), "little")
        if size != len(numbers):
            raise CheckpointError(f"storage {escaped(key)}: damaged, of {size} numbers, expected {len(numbers)}")
        numbers[:] = np.frombuffer(data, numbers.dtype, size, place)
        file.seek(place + numbers.nbytes)
    return saved
