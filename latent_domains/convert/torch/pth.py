"""Files of ``torch.save``: zip archives (PyTorch 1.6 and later) and, before, pickles with storages after them.

The pickle contains the saved object and refers to storages by key. In the archive each storage is a member. In the old
format the pickle is the fourth of five: magic number, protocol, system, the saved object, the storages' keys. The
storages follow in the order of the keys, each after its number of numbers.

Nothing that a pickle names is imported, and nothing of it runs. A table has the few names that tensors in dicts need.
Anything else, such as the options of a training program, becomes an :class:`Unknown` without contents or effects.
"""

import io
import pickle
import pickletools
import struct
import zipfile
from collections.abc import Callable
from functools import partial
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from latent_domains.convert.torch.tensors import KINDS, LARGEST, MOST_AXES, escaped, strided
from latent_domains.networks.network import CheckpointError

_STORAGES = {f"{name}Storage": dtype for dtype, (name, _) in KINDS.items()}
"""Type of the numbers in each class of storage of the module ``torch``."""

MakeStorage = Callable[[str, np.dtype, int], NDArray]
"""Returns the numbers of a storage, given its key, their type and their number."""


class _Dict(dict):
    """Replaces an OrderedDict. A state dict has versions of its modules as an attribute, which is not needed here."""

    __slots__ = ()

    def __setstate__(self, state: object) -> None:
        pass


class Unknown:
    """An object of an unknown class, whose name its own class has. It accepts and drops what a pickle gives it."""

    __slots__ = ()

    def __new__(cls, *_: object, **__: object) -> "Unknown":
        return object.__new__(cls)

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __setstate__(self, state: object) -> None:
        pass

    def __setitem__(self, key: object, value: object) -> None:
        pass

    def add(self, *_: object) -> None:
        """Accept one thing or several, as lists and sets do."""

    append = extend = add


class _NumpyKind(Unknown):
    """Replaces a dtype of NumPy: its code, as f4, and the order of its bytes."""

    __slots__ = ("code", "order")

    def __new__(cls, code: object = "", *_: object) -> "_NumpyKind":
        made = object.__new__(cls)
        made.code, made.order = code, "<"
        return made

    def __setstate__(self, state: object) -> None:
        if isinstance(state, tuple) and len(state) > 1 and state[1] in ("<", ">", "|"):
            self.order = state[1]


class NumpyArray(Unknown):
    """Replaces an array of NumPy: its numbers, None if weights never have their type."""

    __slots__ = ("values",)

    def __new__(cls, *_: object) -> "NumpyArray":
        made = object.__new__(cls)
        made.values = None
        return made

    def __setstate__(self, state: object) -> None:
        match state:
            case (_, tuple(shape), _NumpyKind(code=str(code), order=order), fortran, bytes(data)):
                if code in _NUMPY_CODES and len(shape) <= MOST_AXES:
                    numbers = np.frombuffer(data, f"{order}{code}")
                    self.values = numbers.reshape(shape, order="F" if fortran else "C")


_NUMPY_CODES = ("f8", "f4", "f2", "i8", "i4", "i2", "i1", "u1", "b1")


def load(file: BinaryIO, make_storage: MakeStorage | None = None) -> Any:
    """Unpickle one object at the current place of ``file``, by default one without storages.

    Raises CheckpointError if the pickle is damaged or refers to anything outside but storages.
    """
    try:
        _check_memo(file)
        return _Unpickler(file, make_storage).load()
    except CheckpointError:
        raise
    except Exception as error:  # what a damaged pickle raises is not listed anywhere
        found = escaped(str(error) or type(error).__name__)
        raise CheckpointError(f"its pickle is damaged or truncated: {found}") from error


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: BinaryIO, make_storage: MakeStorage | None) -> None:
        super().__init__(file, encoding="utf-8")
        self._make_storage = make_storage
        self._unknown: dict[str, type[Unknown]] = {}

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return _Dict
        if (module, name) in _FUNCTIONS:
            return partial(_FUNCTIONS[module, name])  # its own copy: a pickle may set attributes
        if module == "torch" and name in _STORAGES:
            return name
        if (module, name) == ("numpy", "dtype"):
            return partial(_NumpyKind)
        what = f"{module}.{name}"
        return self._unknown.setdefault(what, type(what, (Unknown,), {"__slots__": ()}))

    def persistent_load(self, pid: Any) -> Any:
        """Return the storage of a persistent id ``("storage", class, key, device, size, …)``, or the class of a module.

        A storage of numbers that weights never have (complex, quantised, 8-bit floats) is :class:`Unknown`.
        """
        match pid:
            case ("module", kind, *_):  # beside its source code, as old PyTorch kept whole models
                return kind
            case ("storage", type(), str(), *_):
                return Unknown()
            case ("storage", str(kind), str(key), _, int(size), *rest) if self._make_storage and kind in _STORAGES:
                if 0 <= size <= LARGEST and all(value is None for value in rest):
                    return self._make_storage(key, _STORAGES[kind], size)
        raise CheckpointError("its pickle refers to an external object that is not a whole storage of PyTorch")


def _check_memo(file: BinaryIO) -> None:
    """Raise CheckpointError for an index in the memo that no pickle of this length has; ``file`` keeps its position.

    The unpickler fills its table up to that index: one wrong bit could fill all memory.
    """
    start = file.tell()
    for opcode, number, position in pickletools.genops(file):
        if opcode.name in ("PUT", "BINPUT", "LONG_BINPUT") and number > position:
            raise CheckpointError(f"its pickle is damaged: thing {number} of its memo at byte {position}")
    file.seek(start)


def _tensor(storage: Any, offset: Any, shape: Any, strides: Any, *_: Any) -> NDArray | Unknown:
    """Return a part of a storage. Further arguments are requires_grad, hooks and metadata."""
    if isinstance(storage, Unknown):
        return storage
    if not all((isinstance(storage, np.ndarray), isinstance(shape, tuple), isinstance(strides, tuple))):
        raise CheckpointError("a tensor without a storage, sizes or strides")
    return strided(storage, offset, shape, strides)


def _of_type(rebuild: Any, _: Any, arguments: Any, *__: Any) -> Any:
    """Return a tensor of a subclass, or with attributes, as ``rebuild`` makes it: one of the functions here."""
    return rebuild(*arguments) if isinstance(rebuild, partial) else Unknown()


_FUNCTIONS = {
    ("torch._utils", "_rebuild_tensor"): _tensor,
    ("torch._utils", "_rebuild_tensor_v2"): _tensor,
    ("torch._utils", "_rebuild_parameter"): lambda data, *_: data,
    ("torch._utils", "_rebuild_parameter_with_state"): lambda data, *_: data,
    ("torch._tensor", "_rebuild_from_type_v2"): _of_type,
    ("collections", "defaultdict"): lambda *_: _Dict(),
    ("_codecs", "encode"): lambda text, *_: text.encode("latin1"),
    ("numpy.core.multiarray", "_reconstruct"): lambda *_: NumpyArray(),
    ("numpy._core.multiarray", "_reconstruct"): lambda *_: NumpyArray(),
}


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
    """Return the contents of a member. PyTorch never compresses: a compressed one could be of any size."""
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
    """Say whether a file begins as the old format does: with the magic number, pickled by itself."""
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
        """Return room for the numbers, which come later in the file."""
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
