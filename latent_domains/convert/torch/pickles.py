"""Unpickling of state dicts: a pickle gets the few names that tensors in dicts need, as stand-ins, and nothing else.

What a pickle names is looked up in a table, never imported; any other name is refused before anything is done with it.
"""

import pickle
import pickletools
from collections.abc import Callable
from functools import cached_property
from typing import Any, BinaryIO

from numpy.typing import NDArray

from latent_domains.convert.torch.tensors import LARGEST, RAW, CheckpointError, Inert, Tensor, check_part, strided
from latent_domains.convert.torch.words import plain, shown

STORAGES = {
    "DoubleStorage": "float64",
    "FloatStorage": "float32",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "int64",
    "IntStorage": "int32",
    "ShortStorage": "int16",
    "CharStorage": "int8",
    "ByteStorage": "uint8",
    "BoolStorage": "bool",
}
"""Kind of the numbers in each class of storage of the module ``torch``."""

_EXPECTED = (
    "expected a dict of tensors alone. If a whole model was saved, load it where its code is and save "
    "torch.save(model.state_dict(), FILE)"
)


class Storage(Inert):
    """So many numbers of a kind that tensors are parts of, in the file under ``key``."""

    def __init__(self, kind: str, key: str, size: int, read: Callable[["Storage"], NDArray]) -> None:
        self.kind, self.key, self.size = kind, key, size
        self._read = read

    @property
    def bytes(self) -> int:
        """Bytes that it takes in the file."""
        return self.size * RAW[self.kind].itemsize

    @cached_property
    def numbers(self) -> NDArray:
        """The numbers as RAW has them, read when they are first asked for. Raises CheckpointError if they are not."""
        return self._read(self)


class Dict(dict):
    """In place of an OrderedDict. A state dict carries versions of its modules as an attribute: not needed here."""

    __slots__ = ()

    def __setstate__(self, state: object) -> None:
        pass


class _Function(Inert):
    """In place of one of PyTorch's functions: it can be called."""

    __slots__ = ("_call",)

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call

    def __call__(self, *arguments: object) -> object:
        return self._call(*arguments)


def load(file: BinaryIO, storage: Callable[[tuple[Any, ...]], Storage]) -> Any:
    """Unpickle one object at the place where ``file`` stands. ``storage`` makes one from its persistent id.

    Raises CheckpointError if the pickle is damaged or asks for anything that a state dict does not need.
    """
    try:
        _check_memo(file)
        return _Unpickler(file, storage).load()
    except CheckpointError:
        raise
    except Exception as error:  # what a damaged pickle raises is not listed anywhere
        found = plain(str(error) or type(error).__name__)
        raise CheckpointError(f"its pickle is damaged or truncated: {found}") from error


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: BinaryIO, storage: Callable[[tuple[Any, ...]], Storage]) -> None:
        super().__init__(file, encoding="utf-8")
        self._storage = storage

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _ALLOWED:
            return _ALLOWED[module, name]
        if module == "torch" and name in STORAGES:
            return name
        what = plain(f"{module}.{name}")
        raise CheckpointError(
            f"its pickle asks for {what}, which no state dict needs and which is not run here; {_EXPECTED}"
        )

    def persistent_load(self, pid: Any) -> Storage:
        if isinstance(pid, tuple) and pid and pid[0] == "module":  # source code of a model, as old PyTorch kept it
            raise CheckpointError(f"it holds the source of a module: a whole pickled model; {_EXPECTED}")
        if not (isinstance(pid, tuple) and len(pid) >= 5 and pid[0] == "storage"):
            raise CheckpointError("its pickle refers to something outside that is no storage of PyTorch's")
        return self._storage(pid)


def make_storage(pid: tuple[Any, ...], read: Callable[[Storage], NDArray]) -> Storage:
    """The storage of a persistent id ``("storage", class, key, device, size, …)``."""
    _, kind, key, _, size, *rest = pid
    if not isinstance(kind, str) or kind not in STORAGES or not isinstance(key, str) or type(size) is not int:
        raise CheckpointError(f"its pickle describes a storage as {shown(pid[1:3])} of {shown(size)} numbers")
    if not 0 <= size <= LARGEST or any(value is not None for value in rest):
        raise CheckpointError(
            f"storage {shown(key)}: of {shown(size)} numbers, with {shown(rest)}: expected a whole storage"
        )
    return Storage(STORAGES[kind], key, size, read)


def _check_memo(file: BinaryIO) -> None:
    """Raise CheckpointError for a place in the memo that no pickle of this length has; leave ``file`` where it stood.

    The unpickler fills its table up to that place: one wrong bit could take all memory.
    """
    start = file.tell()
    for opcode, number, position in pickletools.genops(file):
        if opcode.name in ("PUT", "BINPUT", "LONG_BINPUT") and number > position:
            raise CheckpointError(f"its pickle is damaged: thing {number} of its memo at byte {position}")
    file.seek(start)


def _tensor(storage: Any, offset: Any, shape: Any, strides: Any) -> Tensor:
    if not isinstance(storage, Storage) or not isinstance(shape, tuple) or not isinstance(strides, tuple):
        raise CheckpointError(f"a tensor of sizes {shown(shape)} and strides {shown(strides)} without a storage")
    check_part(offset, shape, strides)
    return Tensor(storage.kind, shape, lambda: strided(storage.numbers, offset, shape, strides))


def _tensor_v2(storage: Any, offset: Any, shape: Any, strides: Any, *_: Any) -> Tensor:
    return _tensor(storage, offset, shape, strides)  # the rest is requires_grad, hooks and metadata


def _parameter(data: Any, *_: Any) -> Any:
    return data


_ALLOWED = {
    ("collections", "OrderedDict"): Dict,
    ("torch._utils", "_rebuild_tensor"): _Function(_tensor),
    ("torch._utils", "_rebuild_tensor_v2"): _Function(_tensor_v2),
    ("torch._utils", "_rebuild_parameter"): _Function(_parameter),
}
