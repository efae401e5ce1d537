"""The GPUs of this machine, whether its Caffe can use them, and the choice of one for a command."""

import ctypes
import fcntl
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from latent_domains.common.program import ProgramError

DRIVER = "libcuda.so.1"

VISIBLE = "CUDA_VISIBLE_DEVICES"

PAUSE = 2.0
"""Seconds between two looks at whether a GPU is free."""


def has_cuda() -> bool:
    """Say whether this Caffe was built for GPUs. If not, the first layer that needs a GPU would end the process.

    It looks for cuBLAS in the libraries that pycaffe links, since other packages may have loaded CUDA too.
    """
    from caffe import _caffe

    return hasattr(ctypes.CDLL(_caffe.__file__), "cublasCreate_v2")


def gpu_names(library: str = DRIVER) -> list[str]:
    """Return the names of the GPUs that CUDA shows this process, in its order. Refuses a machine without a driver.

    It asks the driver: pycaffe cannot count GPUs, and ends the process if it is given one that does not exist.
    """
    try:
        driver = ctypes.CDLL(library)
    except OSError:
        raise ProgramError(f"no NVIDIA driver here ({library} was not found): expected a machine with a GPU") from None
    count, name = ctypes.c_int(), ctypes.create_string_buffer(256)
    no_device = 100
    status = driver.cuInit(0)
    if status == no_device:
        return []
    if status or driver.cuDeviceGetCount(ctypes.byref(count)):
        raise ProgramError(f"the NVIDIA driver ({library}) does not start: cuInit gave error {status}")
    found = []
    for number in range(count.value):
        device = ctypes.c_int()
        if driver.cuDeviceGet(ctypes.byref(device), number) or driver.cuDeviceGetName(name, len(name), device):
            raise ProgramError(f"the NVIDIA driver ({library}) does not tell the name of GPU {number}")
        found.append(name.value.decode(errors="replace"))
    return found


def expect_gpu(option: str, gpu: int, names: Sequence[str]) -> None:
    """Raise ProgramError, beginning with ``option``, if ``gpu`` is no index of ``names``: Caffe would abort."""
    if gpu >= len(names):
        there = ", ".join(f"{number} ({name})" for number, name in enumerate(names))
        raise ProgramError(f"{option}: found no GPU {gpu}, expected one of {there}")


def why_no_gpu() -> str | None:
    """Say why Caffe cannot compute on a GPU here; None if it can. Caffe itself would end the process."""
    if not has_cuda():
        return "this Caffe was built without CUDA"
    try:
        return None if gpu_names() else "the driver shows no GPU"
    except ProgramError as error:
        return str(error)


def why_no_layers_on_gpu() -> str | None:
    """Say why our layers cannot compute on a GPU here: Caffe cannot, or CuPy is missing. None if they can."""
    if reason := why_no_gpu():
        return reason
    from caffe_layers._device import import_cupy

    try:
        import_cupy()
    except ImportError as error:
        return f"CuPy cannot be imported ({error})"
    return None


def visible_gpus() -> list[str]:
    """Return the names that CUDA_VISIBLE_DEVICES may have on this machine; empty without a driver."""
    try:
        count = len(gpu_names())
    except ProgramError:
        return []
    named = [name.strip() for name in os.environ.get(VISIBLE, "").split(",") if name.strip()]
    return named[:count] or [str(number) for number in range(count)]


def choose_gpu(visible: list[str], locks: Path, pause: float = PAUSE) -> str:
    """Lock one GPU for this process and the program that replaces it (exec). Wait until one is free.

    ``visible`` are the GPUs' names in CUDA_VISIBLE_DEVICES; ``locks`` is the folder with a lock file for each. The lock
    ends with the last process that inherited it. ``pause`` is in seconds.
    """
    waiting = False
    while True:
        for gpu in visible:
            lock = locks / f"gpu-{gpu.replace('/', '_')}.lock"
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                continue
            os.set_inheritable(descriptor, True)
            return gpu
        if not waiting:
            print(f"all of the GPUs {', '.join(visible)} are in use: waiting for one", file=sys.stderr)
            waiting = True
        time.sleep(pause)
