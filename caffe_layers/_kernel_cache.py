"""Compile the CPU's kernels and load their modules, with the machine code kept on disk.

numba keeps compiled code beside the source or in the user's cache folder, but its index and its data are two files: two
processes that compile at the same time, or two models of CPU on a shared folder, can leave an index that names the
other's code. So every combination of sources, numba, Python and CPU gets its own folder, and only one process at a time
may compile into it; the others wait and load. Damaged code is compiled again.

A separate process compiles, and computes nothing. For numba optimises a kernel once more when it writes it to disk: the
process that compiled it would run the code from before, whose sums differ in their last bits.
"""

import ctypes
import fcntl
import hashlib
import importlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from types import ModuleType

# Sums of innermost loops may be taken in another order, to be vectorised. NaN and infinities keep their meaning.
SUMS = {"contract", "reassoc", "nsz"}

# numba's cache folder is one for all threads: two modules at once would put their code into the other's.
_loading = threading.Lock()


def load_all() -> None:
    """Compile what is not on disk yet, so that no later program has to."""
    for file in sorted(Path(__file__).parent.glob("*_kernels.py")):
        load(file.stem)


def load(name: str) -> ModuleType:
    """Import the kernel module ``caffe_layers.NAME``.

    Kernels that the calling thread starts have as many threads as OpenMP gives Caffe's layers (OMP_NUM_THREADS), but at
    most NUMBA_NUM_THREADS.
    """
    try:
        openmp = ctypes.CDLL("libgomp.so.1")
    except OSError:  # no OpenMP: no other layer has threads
        return _load(name)
    threads = openmp.omp_get_max_threads()
    module = _load(name)

    import numba

    numba.set_num_threads(min(threads, numba.config.NUMBA_NUM_THREADS))
    openmp.omp_set_num_threads(threads)  # numba may have changed it as it started its threads
    return module


@cache
def _load(name: str) -> ModuleType:
    """Import a kernel module, compiling it first if no machine code is on disk.

    The code is in NUMBA_CACHE_DIR if set, else in this package's ``__pycache__``, else in the user's cache folder; if
    none is writable, it is compiled for this process only.
    """
    import llvmlite.binding
    import numba

    # With TBB, numba 0.68 loses 7 kB of memory whenever it starts threads: gigabytes in a training.
    if "NUMBA_THREADING_LAYER_PRIORITY" not in os.environ:
        numba.config.THREADING_LAYER_PRIORITY = ["omp", "workqueue", "tbb"]
    # The formulas are compiled into the kernels, but numba looks for changes in a kernel's own file only.
    kernels, *others = (Path(__file__).with_name(f"{each}.py") for each in (name, "_formulas", "_kernel_cache"))
    source = b"\0".join(file.read_bytes() for file in (kernels, *others))
    # And it looks at that file's path and time, which are others after `git checkout`, and at Python's version.
    seen = f"{kernels.resolve()} {kernels.stat().st_mtime_ns} {sys.implementation.cache_tag}"
    cpu = f"{numba.config.CPU_NAME or llvmlite.binding.get_host_cpu_name()} {numba.config.CPU_FEATURES or ''}"
    features = llvmlite.binding.get_host_cpu_features().flatten()
    stamp = hashlib.sha256("\0".join([numba.__version__, cpu, features, seen]).encode() + b"\0" + source).hexdigest()
    module = f"{__package__}.{name}"
    with _loading, ExitStack() as stack:
        folder = _writable_folder(f"{name.strip('_')}-{stamp[:16]}")
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kernels-")))
        if not _is_complete(folder):
            _say_once("caffe_layers: compiling the layers' kernels for this processor, once; up to a minute")
        previous, numba.config.CACHE_DIR = numba.config.CACHE_DIR, str(folder)
        try:
            with _one_at_a_time(folder / "lock"):
                _compile(module, folder)
                return importlib.import_module(module)
        finally:
            numba.config.CACHE_DIR = previous


def kernel(signature: str, *, sums: bool = False, threads: bool = True) -> Callable[[Callable], Callable]:
    """Return a decorator: the kernel is compiled, or read from disk, when its module is loaded."""
    from numba import njit

    fastmath = SUMS if sums else {"contract"}
    return njit(signature, parallel=threads, fastmath=fastmath, error_model="numpy", cache=True)


@cache
def _say_once(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _compile(module: str, folder: Path) -> None:
    """Let another process compile the module, unless its machine code is in the folder.

    If that fails, importing the module compiles it here, or reports the error.
    """
    if _is_complete(folder):
        return
    done = folder / "complete"
    if done.exists():
        done.unlink()
        _remove_code(folder)
    paths = os.pathsep.join(path or str(Path.cwd()) for path in sys.path)
    environment = os.environ | {"PYTHONPATH": paths, "NUMBA_CACHE_DIR": str(folder)}
    # In `caffe train` the interpreter is embedded and may not know its executable: then it is that of PATH.
    # -P: else a random.py in the current folder would be imported in place of Python's.
    command = [sys.executable or "python3", "-P", "-c", f"import {module}"]
    with suppress(OSError):
        for _ in range(2):
            if subprocess.run(command, env=environment, capture_output=True, check=False).returncode == 0:
                done.write_text(_state(folder))
                return
            _remove_code(folder)  # a crash may have cut it off, and numba ends at a damaged file


def _remove_code(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)


def _is_complete(folder: Path) -> bool:
    """Say whether the folder has all that was compiled into it, undamaged."""
    try:
        return (folder / "complete").read_text() == _state(folder)
    except (OSError, UnicodeDecodeError):
        return False


def _state(folder: Path) -> str:
    """Return the hash of the machine code in a folder."""
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in sorted(folder.rglob("*.nb?")))).hexdigest()


def _writable_folder(name: str) -> Path | None:
    given = os.environ.get("NUMBA_CACHE_DIR")
    user = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "caffe_layers")
    for base in [Path(given)] if given else [Path(__file__).with_name("__pycache__"), user]:
        try:
            folder = base.expanduser() / name
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                return folder
        except (OSError, RuntimeError):  # RuntimeError: this user has no home
            continue
    return None


@contextmanager
def _one_at_a_time(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        # Some file systems have no locks; numba's own renames still keep every file whole there.
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
