"""Unpickles state dicts. A pickle gets stand-ins for the few names that tensors in dicts need, and nothing else.

The names in a pickle are looked up in a table, never imported. Any other name is refused before it is used.
"""

import pickle
import pickletools
from collections.abc import Callable
from functools import partial
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from latent_domains.convert.torch.tensors import KINDS, LARGEST, CheckpointError, escaped, strided

_STORAGES = {f"{name}Storage": dtype for dtype, (name, _) in KINDS.items()}
"""Kind of the numbers in each class of storage of the module ``torch``."""

_EXPECTED = (
    "expected a dict of tensors alone. If a whole model was saved, load it where its code is and save "
    "torch.save(model.state_dict(), FILE)"
)

MakeStorage = Callable[[str, np.dtype, int], NDArray]
"""Returns the numbers of a storage, given its key, their kind and how many there are."""


class _Dict(dict):
    """In place of an OrderedDict. A state dict carries versions of its modules as an attribute: not needed here."""

    __slots__ = ()

    def __setstate__(self, state: object) -> None:
        pass


def load(file: BinaryIO, make_storage: MakeStorage | None = None) -> Any:
    """Unpickle one object at the current place of ``file``, by default one without storages.

    Raises CheckpointError if the pickle is damaged or asks for anything that a state dict does not need.
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

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return _Dict
        if (module, name) in _FUNCTIONS:
            return partial(_FUNCTIONS[module, name])  # its own copy: a pickle may set attributes
        if module == "torch" and name in _STORAGES:
            return name
        what = escaped(f"{module}.{name}")
        raise CheckpointError(
            f"its pickle asks for {what}, which no state dict needs and which is not run here; {_EXPECTED}"
        )

    def persistent_load(self, pid: Any) -> NDArray:
        """The storage of a persistent id ``("storage", class, key, device, size, …)``."""
        match pid:
            case ("module", *_):  # source code of a model, as old PyTorch kept it
                raise CheckpointError(f"it holds the source of a module: a whole pickled model; {_EXPECTED}")
            case ("storage", str(kind), str(key), _, int(size), *rest) if self._make_storage and kind in _STORAGES:
                if 0 <= size <= LARGEST and all(value is None for value in rest):
                    return self._make_storage(key, _STORAGES[kind], size)
        raise CheckpointError("its pickle refers to something outside that is no whole storage of PyTorch's")


def _check_memo(file: BinaryIO) -> None:
    """Raise CheckpointError for a place in the memo that no pickle of this length has; leave ``file`` where it stood.

    The unpickler fills its table up to that place: one wrong bit could take all memory.
    """
    start = file.tell()
    for opcode, number, position in pickletools.genops(file):
        if opcode.name in ("PUT", "BINPUT", "LONG_BINPUT") and number > position:
            raise CheckpointError(f"its pickle is damaged: thing {number} of its memo at byte {position}")
    file.seek(start)


def _tensor(storage: Any, offset: Any, shape: Any, strides: Any, *_: Any) -> NDArray:
    """A part of a storage. Further arguments are requires_grad, hooks and metadata."""
    if not all((isinstance(storage, np.ndarray), isinstance(shape, tuple), isinstance(strides, tuple))):
        raise CheckpointError("a tensor without a storage, sizes or strides")
    return strided(storage, offset, shape, strides)


_FUNCTIONS = {
    ("torch._utils", "_rebuild_tensor"): _tensor,
    ("torch._utils", "_rebuild_tensor_v2"): _tensor,
    ("torch._utils", "_rebuild_parameter"): lambda data, *_: data,
}
