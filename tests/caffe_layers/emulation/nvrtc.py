"""Compiles CUDA kernels with NVRTC, which CuPy uses too, from its wheels: that needs no GPU."""

import ctypes
import sys
from functools import cache
from pathlib import Path

from caffe_layers._device import kept_locale


class NvrtcError(RuntimeError):
    """NVRTC does not compile a source; the message is its log."""


class Nvrtc:
    """One version of NVRTC, by its library ``libnvrtc.so.*``."""

    def __init__(self, library: Path) -> None:
        for builtins in library.parent.glob("libnvrtc-builtins.so.*"):
            ctypes.CDLL(str(builtins))  # NVRTC 13.0 does not look beside itself for them
        self._library = ctypes.CDLL(str(library))
        self._library.nvrtcGetErrorString.restype = ctypes.c_char_p
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._call("nvrtcVersion", ctypes.byref(major), ctypes.byref(minor))
        self.version = major.value, minor.value

    def __repr__(self) -> str:
        return f"NVRTC {self.version[0]}.{self.version[1]}"

    def architectures(self) -> list[int]:
        """The GPU architectures it compiles for, such as 61."""
        count = ctypes.c_int()
        self._call("nvrtcGetNumSupportedArchs", ctypes.byref(count))
        supported = (ctypes.c_int * count.value)()
        self._call("nvrtcGetSupportedArchs", supported)
        return list(supported)

    def compile(self, source: str, name: str, options: tuple[str, ...], architecture: int) -> str:
        """The PTX of ``source``, which messages call ``name``.

        It is assembled for the ``architecture`` as well, so that what only a machine's limits forbid fails here:
        too many registers, too much shared memory. Raises NvrtcError with NVRTC's log.
        """
        program = ctypes.c_void_p()
        self._call("nvrtcCreateProgram", ctypes.byref(program), source.encode(), name.encode(), 0, None, None)
        try:
            flags = [option.encode() for option in (*options, f"--gpu-architecture=sm_{architecture}")]
            with kept_locale():
                code = self._library.nvrtcCompileProgram(program, len(flags), (ctypes.c_char_p * len(flags))(*flags))
            if code:
                raise NvrtcError(f"{self}, sm_{architecture}: {self._error(code)}\n{self._text(program, 'ProgramLog')}")
            return self._text(program, "PTX")
        finally:
            self._call("nvrtcDestroyProgram", ctypes.byref(program))

    def _text(self, program: ctypes.c_void_p, what: str) -> str:
        size = ctypes.c_size_t()
        self._call(f"nvrtcGet{what}Size", program, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value)
        self._call(f"nvrtcGet{what}", program, text)
        return text.value.decode()

    def _call(self, function: str, *arguments: object) -> None:
        code = getattr(self._library, function)(*arguments)
        if code:
            raise NvrtcError(f"{function}: {self._error(code)}")

    def _error(self, code: int) -> str:
        return self._library.nvrtcGetErrorString(code).decode()


@cache
def installed() -> tuple[Nvrtc, ...]:
    """Every version that a wheel of this environment brings, oldest first."""
    folders = [Path(folder) for folder in sys.path]
    libraries = {path.resolve() for folder in folders for path in folder.glob("nvidia/*/lib/libnvrtc.so.*")}
    return tuple(sorted((Nvrtc(library) for library in libraries), key=lambda compiler: compiler.version))
