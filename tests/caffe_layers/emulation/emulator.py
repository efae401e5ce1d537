"""Runs CUDA kernels on the CPU from the very source that CuPy hands to NVRTC, for the tests.

g++ compiles the source behind ``cuda_on_cpu.h``, which declares the part of CUDA C that our kernels use. Each block
runs by itself, each of its threads as a fiber. Checked are every access to memory, barriers, what the lanes of a warp
do together, and races: what a GPU leaves undefined ends the launch with an ``EmulationError`` that names block, thread
and line. What it does not show is time, and rounding that differs: NVRTC contracts a·b+c to one rounding, g++ here not.
"""

import ctypes
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

COMPILER = shutil.which("g++")
_HERE = Path(__file__).parent
_RUNTIME = ("threads.cpp", "memory.cpp", "races.cpp", "hooks.cpp", "undefined.cpp")
_HEADERS = ("cuda_on_cpu.h", "kernel_table.h", "module.h", "races.h", "runtime.h")
_ORDERS = ("forward", "reverse", "shuffled")
# CUDA's limit of a block, the same on every architecture from 6.0 on.
_MOST_THREADS = 1024
_CHECKS = "thread,alignment,bounds,null,signed-integer-overflow,shift,integer-divide-by-zero"
_FUNCTION = re.compile(r'extern\s*"C"\s*(?P<head>[^;{}]*?)(?P<name>\w+)\s*\((?P<parameters>[^()]*)\)\s*\{')
_BOUNDS = re.compile(r"__launch_bounds__\s*\(((?:[^()]|\([^()]*\))*)\)")


class Traffic(NamedTuple):
    """The bytes of an array that all threads of a launch together read and wrote, counted as often as they did."""

    read: int
    written: int


class EmulationError(RuntimeError):
    """A kernel did what CUDA forbids or leaves undefined; the message names kernel, block, thread and line."""


class _Index(ctypes.Structure):
    _fields_ = [("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint)]


class _Kernel(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("parameters", ctypes.c_char_p),
        ("run", ctypes.c_void_p),
        ("most_threads", ctypes.c_uint),
    ]


class _Module(ctypes.Structure):
    _fields_ = [
        ("kernels", ctypes.POINTER(_Kernel)),
        ("image", ctypes.c_void_p),
        ("shared", ctypes.c_void_p),
        ("end", ctypes.c_void_p),
    ]


class _Region(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("bytes", ctypes.c_uint64),
        ("written", ctypes.c_uint32),
        ("label", ctypes.c_char_p),
        ("bytes_read", ctypes.c_uint64),
        ("bytes_written", ctypes.c_uint64),
    ]


class _Argument(ctypes.Structure):
    _fields_ = [("region", ctypes.c_int64), ("bits", ctypes.c_uint64)]


class _Variable(ctypes.Structure):
    _fields_ = [("begin", ctypes.c_uint64), ("end", ctypes.c_uint64), ("label", ctypes.c_char_p)]


class _Codes(ctypes.Structure):
    _fields_ = [("here", ctypes.c_uint64), ("other", ctypes.c_uint64)]


class _Launch(ctypes.Structure):
    _fields_ = [
        ("module", ctypes.POINTER(_Module)),
        ("kernel", ctypes.POINTER(_Kernel)),
        ("grid", _Index),
        ("block", _Index),
        ("regions", ctypes.POINTER(_Region)),
        ("region_count", ctypes.c_uint64),
        ("arguments", ctypes.POINTER(_Argument)),
        ("argument_count", ctypes.c_uint64),
        ("variables", ctypes.POINTER(_Variable)),
        ("variable_count", ctypes.c_uint64),
        ("order", ctypes.c_uint32),
        ("seed", ctypes.c_uint64),
    ]


class Module:
    """The kernels of one compiled source, as ``compile`` returns them."""

    def __init__(self, library: Path, declared: dict[str, re.Match[str]]) -> None:
        # PyDLL keeps Python's lock: one launch runs at a time.
        self._runtime = ctypes.PyDLL(_runtime())
        self._runtime.cuda_launch.argtypes = [
            ctypes.POINTER(_Launch),
            ctypes.c_char_p,
            ctypes.c_size_t,
            ctypes.POINTER(_Codes),
        ]
        self._library = library
        self._module = _Module.in_dll(ctypes.PyDLL(library), "cuda_module")
        self._variables = _shared_variables(library)
        self._kernels = {}
        for number, (name, declaration) in enumerate(declared.items()):
            record = self._module.kernels[number]
            types = record.parameters.decode().split(",")[:-1]
            texts = declaration["parameters"].split(",") if types else []
            names = [re.findall(r"\w+", text)[-1] for text in texts]
            self._kernels[name] = record, list(zip(names, types, strict=True))

    def launch(
        self,
        name: str,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        args: tuple,
        *,
        order: str = "forward",
        seed: int = 0,
    ) -> dict[str, Traffic]:
        """Run kernel ``name`` on ``grid`` blocks (1 to 3 numbers) of ``block`` threads.

        ``args``: C-contiguous NumPy arrays, or None for a null pointer; NumPy scalars of exactly the parameter's type.
        ``order`` is that of the blocks and of the threads of a block between two barriers: ``forward``, ``reverse``,
        or ``shuffled`` (anew after every barrier) by ``seed``. What depends on it is a race.

        The result is the traffic of each array, by its parameter.

        The kernel works on copies that lie far apart; written arrays change only if the whole launch succeeds.
        Raises TypeError for arguments that are not what the kernel declares or that overlap, ValueError for more
        threads than CUDA allows, EmulationError for what goes wrong inside.
        """
        record, parameters = self._kernels[name]
        launch = _Launch(
            module=ctypes.pointer(self._module),
            kernel=ctypes.pointer(record),
            grid=_Index(*(*grid, 1, 1)[:3]),
            block=_Index(*(*block, 1, 1)[:3]),
            variables=self._variables,
            variable_count=len(self._variables),
            order=_ORDERS.index(order),
            seed=seed,
        )
        most = record.most_threads or _MOST_THREADS
        if (threads := int(np.prod(block))) > most:
            raise ValueError(f"kernel {name}: {threads} threads a block, but {most} is the most it may have")
        regions, arguments = _arguments(name, parameters, args)
        launch.regions, launch.region_count = regions, len(regions)
        launch.arguments, launch.argument_count = arguments, len(arguments)
        message, codes = ctypes.create_string_buffer(2048), _Codes()
        if self._runtime.cuda_launch(launch, message, len(message), codes):
            places = " and ".join(filter(None, map(self._line, (codes.here, codes.other))))
            raise EmulationError(f"kernel {name}, {message.value.decode()}" + (f" ({places})" if places else ""))
        return {region.label.decode(): Traffic(region.bytes_read, region.bytes_written) for region in regions}

    def _line(self, code: int) -> str:
        """Where in the source a piece of machine code comes from, as ``kernels.cu:12``."""
        if not code:
            return ""
        done = _tool("addr2line", "-i", "-e", self._library, hex(code))
        places = [re.sub(r" .*", "", Path(line).name) for line in done.splitlines()]
        return next((place for place in places if place.split(":")[0] not in _HEADERS and "?" not in place), "")


@cache
def compile(source: str, options: tuple[str, ...] = (), *, name: str = "kernels.cu") -> Module:
    """Compile CUDA C; ``options`` are those for NVRTC, of which -D and -std are understood.

    ``name`` is the file that messages name. Compiled code is kept, by a hash of all that goes into it.
    Raises ValueError with the compiler's message, or for another option.
    """
    defined = ""
    for option in options:
        match = re.fullmatch(r"-D(\w+)(?:=(.*))?|--?std=c\+\+1[47]", option)
        if not match:
            raise ValueError(f"option {option!r}: only -DNAME, -DNAME=VALUE and -std=c++14 or c++17 are understood")
        if match[1]:
            defined += f"#define {match[1]} {1 if match[2] is None else match[2]}\n"
    numbered = f'#line 1 "{name}"\n{source}'
    plain = _gcc(["-E", "-P", "-x", "c++", "-"], defined + numbered)
    declared = {match["name"]: match for match in _FUNCTION.finditer(plain) if "__global__" in match["head"]}
    if len(declared) != plain.count("__global__"):
        raise ValueError(f'{name}: every kernel is expected as: extern "C" __global__ void name(parameters) {{')
    table = ""
    for kernel, match in declared.items():
        bounds = _BOUNDS.search(match["head"])
        table += f"CUDA_KERNEL({kernel}, {bounds[1] if bounds else 0}), "
    # The macros come behind the headers, whose names they could change.
    text = (
        f'#include "cuda_on_cpu.h"\n#include "kernel_table.h"\n{defined}namespace {{\n{numbered}\n}}\n'
        f'#line 1 "kernel table"\nCUDA_MODULE({table})\n'
    )
    flags = ["-std=c++17", "-O1", "-g", "-fPIC", "-nostdinc", f"-I{_HERE}", "-fvisibility=hidden", "-fno-exceptions"]
    flags += [f"-fsanitize={_CHECKS}", "-fno-sanitize-recover=all", "--param=tsan-distinguish-volatile=1"]
    flags += ["-Werror=return-type", "-Werror=undef", "-Werror=frame-larger-than=65536"]
    # No start files: whatever lies in .bss is the kernels' shared memory.
    linking = ["-shared", "-nostartfiles", "-Wl,-z,defs", "-Wl,-rpath,$ORIGIN"]
    runtime = _runtime()

    def build(path: Path) -> None:
        # Linked apart, as g++ would link its sanitizers' own runtimes. addr2line may name the outer file: call it so.
        whole, compiled = path.with_name(name), path.with_suffix(".o")
        whole.write_text(text, "utf-8")
        _gcc(["-c", *flags, "-o", compiled, "-x", "c++", whole])
        _gcc([*linking, "-o", path, compiled, runtime, "-lm"])

    return Module(_built("kernels", [text, *flags, *linking, runtime.name], build), declared)


def _shared_variables(library: Path) -> ctypes.Array:
    """All that lies in the library's .bss, by its symbols."""
    found = []
    for line in _tool("nm", "--print-size", "--defined-only", "--demangle", library).splitlines():
        if match := re.fullmatch(r"(\w+) (\w+) [bB] (.*)", line):
            begin, size = int(match[1], 16), int(match[2], 16)
            found.append((begin, begin + size, re.split(r"::(?=\w+$)", match[3])[-1].encode()))
    return (_Variable * len(found))(*sorted(found))


def _tool(*command: str | Path) -> str:
    return subprocess.run(command, capture_output=True, encoding="utf-8", check=True).stdout


def _gcc(arguments: list[str | Path], text: str = "") -> str:
    # Messages in English and ASCII, wherever this runs.
    done = subprocess.run(
        [COMPILER, *arguments],
        input=text,
        env=os.environ | {"LC_ALL": "C"},
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    if done.returncode:
        raise ValueError(f"g++ does not compile this:\n{done.stderr}")
    return done.stdout


@cache
def _runtime() -> Path:
    flags = ["-std=c++20", "-O2", "-shared", "-fPIC", "-Wall", "-Wextra"]

    def build(path: Path) -> None:
        # Fibers jump between stacks, which the checked longjmp of _FORTIFY_SOURCE refuses.
        sources = [_HERE / name for name in _RUNTIME]
        _gcc([*flags, "-U_FORTIFY_SOURCE", f"-Wl,-soname,{path.name}", "-o", path, *sources])

    return _built("runtime", [(_HERE / name).read_text("utf-8") for name in _RUNTIME] + flags, build)


def _built(kind: str, parts: list[str], build: Callable[[Path], None]) -> Path:
    """The shared library ``kind``-HASH.so, built if no process has done so yet."""
    headers = [(_HERE / name).read_text("utf-8") for name in _HEADERS]
    stamp = hashlib.sha256("\0".join([_compiler_version(), *headers, *parts]).encode()).hexdigest()
    path = _HERE / "__pycache__" / "emulation" / f"{kind}-{stamp[:20]}.so"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as aside:
            made = Path(aside) / path.name
            build(made)
            made.replace(path)
    return path


@cache
def _compiler_version() -> str:
    return _gcc(["-dumpfullversion", "-dumpmachine"])


def _arguments(name: str, parameters: list[tuple[str, str]], args: tuple) -> tuple[ctypes.Array, ctypes.Array]:
    if len(args) != len(parameters):
        raise TypeError(f"kernel {name}: expected {len(parameters)} arguments, got {len(args)}")
    arguments = (_Argument * len(args))()
    regions = []
    for argument, value, (parameter, kind) in zip(arguments, args, parameters, strict=True):
        dtype = np.dtype(kind.removeprefix("const ").removesuffix("*"))
        expected, constant = (np.ndarray if kind.endswith("*") else np.generic), kind.startswith("const ")
        argument.region = -1
        if value is None and expected is np.ndarray:
            continue
        if not isinstance(value, expected) or value.dtype != dtype:
            raise TypeError(f"kernel {name}, argument {parameter}: expected {kind}, got {value!r}")
        if expected is np.generic:
            argument.bits = int.from_bytes(value.tobytes(), "little")
            continue
        if not value.flags.c_contiguous or not (constant or value.flags.writeable):
            raise TypeError(
                f"kernel {name}, argument {parameter}: an array with gaps, or one to write that is read-only"
            )
        argument.region = len(regions)
        regions.append(_Region(value.ctypes.data, value.nbytes, not constant, parameter.encode()))
    places = sorted((region.data, region.data + region.bytes) for region in regions)
    if any(begin < end for (_, end), (begin, _) in pairwise(places)):
        raise TypeError(f"kernel {name}: two of its arrays overlap")
    return (_Region * len(regions))(*regions), arguments
