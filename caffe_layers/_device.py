"""The layers' access to a GPU, through CuPy.

CuPy is optional: it is imported when a layer first runs in Caffe's GPU mode.
"""

import ctypes
import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, lru_cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

import numpy as np
from caffe import _caffe
from numpy.typing import DTypeLike, NDArray

from caffe_layers import _cuda_source
from caffe_layers._scratch import Pool

_REMEDY = (
    "install it for the CUDA that Caffe was built with (pip install cupy-cuda11x for CUDA 11, cupy-cuda12x, "
    "cupy-cuda13x), or train in CPU mode (solver_mode: CPU)"
)

Array = Any  # an array of the device: CuPy's, or the tests' NumPy


class Kernels(Protocol):
    """The kernels of one source file, compiled for one set of macros."""

    def launch(self, name: str, grid: int, block: int | tuple[int, int], *arguments: Any) -> None:
        """Start a kernel. Arguments are arrays, None (a null pointer), and NumPy scalars of the kernel's types."""


class Device(Protocol):
    """The layers' requests to a GPU. Nothing here waits for the GPU."""

    def data(self, blob: Any, shape: tuple[int, ...], first: int = 0) -> Array:
        """Return the blob's data, from its element ``first`` on, as a float32 array of ``shape``, without a copy.

        The same memory and shape give the same object. Raises RuntimeError if Caffe has it on another device.
        """

    def diff(self, blob: Any, shape: tuple[int, ...]) -> Array:
        """Return the blob's diff, as :meth:`data` does."""

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
        """Return an uninitialised array."""

    def ones(self, shape: tuple[int, ...]) -> Array:
        """Return a float32 array of ones."""

    def scratch(self, name: str, shape: tuple[int, ...], dtype: DTypeLike = np.float64) -> Array:
        """Return an array that all layers share (see ``_scratch.Pool``)."""

    def fault(self) -> tuple[Array, NDArray[np.uint64]]:
        """Return a word of host memory that kernels can write: the argument for them, and the host's view of it."""

    def kernels(self, source: str, **macros: str | int) -> Kernels:
        """Return the kernels of ``caffe_layers/SOURCE.cu``, compiled once for each set of macros."""

    def active(self) -> Any:
        """Return a context in which arrays are made and kernels started on Caffe's device and stream."""


def gpu() -> Device:
    """Return the GPU that Caffe computes on. Raises RuntimeError if CuPy cannot be used."""
    # A thread has one current device in CUDA: CuPy sees the one that Caffe chose.
    return _gpu(_cupy().cuda.runtime.getDevice())


@cache
def _cupy() -> ModuleType:
    if not hasattr(_caffe.Blob, "_gpu_data_ptr"):
        raise RuntimeError(
            "caffe_layers: Caffe is in GPU mode, but was built without CUDA; train in CPU mode (solver_mode: CPU)"
        )
    try:
        cupy = import_cupy()
    except ImportError as error:
        raise RuntimeError(
            f"caffe_layers: the layers need CuPy in Caffe's GPU mode, and it cannot be imported ({error}); {_REMEDY}"
        ) from error
    # The layers were tried with 13 and later. Before 12, who left a device got GPU 0, not the device before.
    if int(cupy.__version__.split(".")[0]) < 13:
        raise RuntimeError(f"caffe_layers: CuPy is {cupy.__version__}; expected 13 or later: {_REMEDY}")
    return cupy


def import_cupy() -> ModuleType:
    """Import CuPy, after telling it where CUDA is: it looks for it only once, on import. Raises ImportError."""
    show_cupy_the_wheels()
    return importlib.import_module("cupy")


def show_cupy_the_wheels() -> None:
    """Tell CuPy for CUDA 13 where the toolkit of NVIDIA's wheels is, unless CUDA_PATH names another.

    CuPy 13 itself looks for a toolkit only in a system's usual folders.
    """
    if "CUDA_PATH" in os.environ or not any(metadata.distributions(name="cupy-cuda13x")):
        return
    wheels = find_spec("nvidia")
    for home in (Path(folder, "cu13") for folder in (wheels and wheels.submodule_search_locations) or ()):
        nvrtc = home / "lib/libnvrtc.so.13"
        if nvrtc.is_file() and (home / "include/cuda_runtime.h").is_file():
            os.environ["CUDA_PATH"] = str(home)
            # CuPy opens NVRTC by its name, and NVRTC its second library. What is loaded already is found by name.
            for library in (nvrtc, *nvrtc.parent.glob("libnvrtc-builtins.so.*")):
                ctypes.CDLL(str(library), ctypes.RTLD_GLOBAL)
            return


@cache
def _gpu(number: int) -> "Gpu":
    return Gpu(_cupy(), number)


class Gpu:
    """A ``Device`` that uses CuPy."""

    def __init__(self, cupy: ModuleType, number: int) -> None:
        self._cupy = cupy
        self._device = cupy.cuda.Device(number)
        self._pool = Pool(cupy.empty)
        self._active = _Active(self._device, cupy.cuda.Stream.null)
        self._wrapped = lru_cache(maxsize=4096)(self._wrap)
        self._compiled = cache(self._compile)

    def data(self, blob: Any, shape: tuple[int, ...], first: int = 0) -> Array:
        return self._wrapped(blob._gpu_data_ptr + 4 * first, shape)

    def diff(self, blob: Any, shape: tuple[int, ...]) -> Array:
        return self._wrapped(blob._gpu_diff_ptr, shape)

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
        return self._cupy.empty(shape, dtype)

    def ones(self, shape: tuple[int, ...]) -> Array:
        return self._cupy.asarray(np.ones(shape, np.float32))

    def scratch(self, name: str, shape: tuple[int, ...], dtype: DTypeLike = np.float64) -> Array:
        return self._pool.array(name, shape, dtype)

    def fault(self) -> tuple[Array, NDArray[np.uint64]]:
        # Page-locked memory has one address for host and device.
        memory = self._cupy.cuda.alloc_pinned_memory(8)
        word = np.frombuffer(memory, np.uint64, 1)
        word[0] = 0
        return np.uint64(memory.ptr), word

    def kernels(self, source: str, **macros: str | int) -> "CupyKernels":
        return self._compiled(source, tuple(f"-D{name}={value}" for name, value in macros.items()))

    def active(self) -> "_Active":
        return self._active

    def _wrap(self, pointer: int, shape: tuple[int, ...]) -> Array:
        cupy = self._cupy
        device = cupy.cuda.runtime.pointerGetAttributes(pointer).device
        if device != self._device.id:
            raise RuntimeError(f"caffe_layers: Caffe has a blob on GPU {device}, but works on GPU {self._device.id}")
        size = 4 * int(np.prod(shape))
        memory = cupy.cuda.UnownedMemory(pointer, size, None, self._device.id)
        return cupy.ndarray(shape, np.float32, cupy.cuda.MemoryPointer(memory, 0))

    def _compile(self, source: str, options: tuple[str, ...]) -> "CupyKernels":
        module = self._cupy.RawModule(code=_cuda_source.source(source), options=("-std=c++14", *options))
        with kept_locale():
            module.compile()
        return CupyKernels(module)


@contextmanager
def kept_locale() -> Iterator[None]:
    """Restore the thread's locale afterwards: NVRTC 11.8 leaves "C", in which Python reads and writes only ASCII."""
    libc = ctypes.CDLL(None)
    libc.uselocale.argtypes, libc.uselocale.restype = [ctypes.c_void_p], ctypes.c_void_p
    before = libc.uselocale(None)  # asks; sets nothing
    try:
        yield
    finally:
        libc.uselocale(before)


class _Active:
    """Caffe's device, and the default stream, which Caffe works on."""

    def __init__(self, device: Any, stream: Any) -> None:
        self._device, self._stream = device, stream

    def __enter__(self) -> None:
        self._device.__enter__()
        self._stream.__enter__()

    def __exit__(self, *error: object) -> None:
        self._stream.__exit__(*error)
        self._device.__exit__(*error)


class CupyKernels:
    """Compiled kernels (``Kernels``); CuPy keeps the machine code on disk as well (CUPY_CACHE_DIR)."""

    def __init__(self, module: Any) -> None:
        self._kernel = cache(module.get_function)

    def launch(self, name: str, grid: int, block: int | tuple[int, int], *arguments: Any) -> None:
        block = (block,) if isinstance(block, int) else block
        # A null pointer is passed as a 64-bit zero.
        self._kernel(name)((grid,), block, tuple(np.uint64(0) if each is None else each for each in arguments))
