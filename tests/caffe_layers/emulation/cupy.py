"""A stand-in for the part of CuPy that ``caffe_layers._device`` calls, where there is no GPU.

Device memory is the host's and kernels run in the emulator. What each call accepts is what CuPy 13 accepts, as far as
that could be tried without a GPU (``UnownedMemory``, ``MemoryPointer``, ``ndarray``, ``RawModule``) or read in its
sources (the types of kernel arguments).
"""

import ctypes
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from tests.caffe_layers.emulation import emulator

DEVICE = 3
_ARGUMENTS = (np.int32, np.int64, np.uint64, np.float32, np.float64)


class Log:
    """The kernels started so far, what each read and wrote, and the ``order`` in which threads and blocks run."""

    def __init__(self, order: str) -> None:
        self.order = order
        self.started: list[str] = []
        self.traffic: list[dict[str, emulator.Traffic]] = []


class _Context:
    def __init__(self, number: int) -> None:
        self.id = number

    def __enter__(self) -> "_Context":
        _entered.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        assert _entered.pop() is self


_entered: list[_Context] = []
_null = _Context(-1)


class _Memory:
    def __init__(self, ptr: int, size: int, owner: object, device_id: int) -> None:
        assert device_id == DEVICE
        self.ptr, self.size = ptr, size


class _Pointer:
    def __init__(self, memory: _Memory, offset: int) -> None:
        self.memory, self.ptr = memory, memory.ptr + offset


class _Pinned(bytearray):
    @property
    def ptr(self) -> int:
        return ctypes.addressof(ctypes.c_char.from_buffer(self))


class _Module:
    def __init__(self, *, code: str, options: tuple[str, ...]) -> None:
        assert code.isascii()  # it is written to a file in the locale's encoding
        self._module = emulator.compile(code, options)

    def compile(self) -> None:
        # As NVRTC 11.8 does: this thread's locale becomes "C".
        libc = ctypes.CDLL(None)
        libc.newlocale.argtypes, libc.newlocale.restype = (
            [ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p],
            ctypes.c_void_p,
        )
        libc.uselocale.argtypes = [ctypes.c_void_p]
        libc.uselocale(libc.newlocale(0x1FBF, b"C", None))

    def get_function(self, name: str):
        def start(grid: tuple[int, ...], block: tuple[int, ...], arguments: tuple[Any, ...]) -> None:
            assert [each.id for each in _entered] == [DEVICE, -1], "not on Caffe's device and the default stream"
            log.started.append(name)
            order = {"order": log.order, "seed": len(log.started)}
            log.traffic.append(self._module.launch(name, grid, block, tuple(map(_argument, arguments)), **order))

        return start


def _argument(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value
    assert type(value) in _ARGUMENTS, f"CuPy does not take {type(value)}"
    if type(value) is np.uint64:  # an address
        return _array(int(value), (1,), np.uint64) if value else None
    return value


def _array(address: int, shape: tuple[int, ...], dtype: type) -> np.ndarray:
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return np.frombuffer((ctypes.c_char * size).from_address(address), dtype).reshape(shape)


def _ndarray(shape: tuple[int, ...], dtype: type, pointer: _Pointer) -> np.ndarray:
    array = _array(pointer.ptr, shape, dtype)
    assert array.nbytes == pointer.memory.size
    return array


def _attributes(pointer: int) -> SimpleNamespace:
    assert isinstance(pointer, int)
    return SimpleNamespace(device=DEVICE)


__version__ = "13.6.0"
log = Log("forward")


def empty(shape: tuple[int, ...], dtype: DTypeLike) -> np.ndarray:
    """An array full of NaN, so that reading what no kernel wrote shows."""
    return np.full(shape, np.nan, dtype)


asarray = np.array
ndarray = _ndarray
RawModule = _Module
cuda = SimpleNamespace(
    Device=_Context,
    Stream=SimpleNamespace(null=_null),
    UnownedMemory=_Memory,
    MemoryPointer=_Pointer,
    alloc_pinned_memory=lambda size: _Pinned(b"\xaa" * size),
    runtime=SimpleNamespace(pointerGetAttributes=_attributes, getDevice=lambda: DEVICE),
)
