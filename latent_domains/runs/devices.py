"""Where Caffe computes: GPU or CPU, on which GPUs, by how many processes; and what this machine must have for it."""

import argparse
import ctypes
import fcntl
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import caffe
from caffe.proto import caffe_pb2
from google.protobuf import text_format

from latent_domains.common.caffe_process import has_cuda
from latent_domains.common.files import write_text
from latent_domains.common.program import ProgramError
from latent_domains.runs.run_folder import RunFolder

ALL = "all"

DRIVER = "libcuda.so.1"


@dataclass(frozen=True)
class Devices:
    """Where the processes of one run compute: one on each of ``gpus``, or ``size`` of them on the CPU (None)."""

    size: int
    gpus: tuple[int, ...] | None = None

    def label(self, rank: int) -> str:
        """What a process is called in logs and messages."""
        return f"process {rank}" if self.gpus is None else f"GPU {self.gpus[rank]}"

    @property
    def option(self) -> str:
        """What asked for them on the command line."""
        return f"--processes {self.size}" if self.gpus is None else f"--gpus {','.join(map(str, self.gpus))}"

    @property
    def mode(self) -> str:
        """The solver mode that they are for."""
        return "CPU" if self.gpus is None else "GPU"

    @property
    def uses_nccl(self) -> bool:
        """Whether gradients go from GPU to GPU."""
        return self.gpus is not None and self.size > 1


def gpu_list(text: str) -> tuple[int, ...] | str:
    """The value of ``--gpus``: numbers such as 0,1, or "all". Raises ArgumentTypeError for anything else."""
    if text == ALL:
        return ALL
    numbers = text.split(",")
    if not all(number.isascii() and number.isdecimal() for number in numbers):
        raise argparse.ArgumentTypeError(f"got {text!r}, expected numbers of GPUs such as 0,1, or {ALL}")
    gpus = tuple(map(int, numbers))
    for gpu in gpus:
        if gpus.count(gpu) > 1:
            raise argparse.ArgumentTypeError(f"got {text!r}, which names GPU {gpu} twice; expected each once")
    return gpus


def on_gpus(chosen: tuple[int, ...] | str) -> Devices:
    """The devices that :func:`gpu_list` names.

    Raises ProgramError if Caffe was built without what they need, there is no driver, or no such GPU.
    """
    option = f"--gpus {chosen if chosen == ALL else ','.join(map(str, chosen))}"
    if not has_cuda():
        raise ProgramError(f"{option}: this Caffe was built without CUDA; expected one with it (docs/gpu.md)")
    names = gpu_names()
    gpus = tuple(range(len(names))) if chosen == ALL else tuple(chosen)
    if not names:
        raise ProgramError(f"{option}: the NVIDIA driver shows no GPU (see nvidia-smi, and CUDA_VISIBLE_DEVICES)")
    for gpu in gpus:
        expect_gpu(option, gpu, names)
    if len(gpus) > 1 and not caffe.has_nccl():
        raise ProgramError(
            f"{option}: this Caffe was built without NCCL, which several GPUs need; expected one that was built with "
            "it, or a single GPU"
        )
    return Devices(len(gpus), gpus)


def expect_gpu(option: str, gpu: int, names: Sequence[str]) -> None:
    """Raise ProgramError, beginning with ``option``, if ``gpu`` is none of those with these names: Caffe aborts."""
    if gpu >= len(names):
        there = ", ".join(f"{number} ({name})" for number, name in enumerate(names))
        raise ProgramError(f"{option}: there is no GPU {gpu}; expected any of {there}")


def gpu_names(library: str = DRIVER) -> list[str]:
    """Names of the GPUs that CUDA shows this process, in its order. Raises ProgramError if there is no driver.

    The driver is asked, since pycaffe counts no GPUs and ends the process if it is given one that is not there.
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


MODES = ("GPU", "CPU")

VARIABLE = "SOLVER_MODE"


def requested_mode(option: str | None) -> str | None:
    """The mode asked for by option or environment variable. Raises ProgramError if the variable names none."""
    if option is not None:
        return option
    value = os.environ.get(VARIABLE) or None
    if value is not None and value not in MODES:
        raise ProgramError(f"environment variable {VARIABLE}: got {value!r}, expected {' or '.join(MODES)}")
    return value


def check_available(mode: str | None, who: str) -> None:
    """Raise ProgramError, beginning with ``who``, if this Caffe or this machine has not what ``mode`` needs."""
    if mode == "GPU" and (reason := why_no_gpu()):
        raise ProgramError(f"{who}, but {reason}: pass --solver-mode CPU (or set {VARIABLE}=CPU)")


def why_no_gpu() -> str | None:
    """Why Caffe cannot compute on a GPU here; None if it can. Caffe itself would end the process."""
    if not has_cuda():
        return "this Caffe was built without CUDA"
    try:
        return None if gpu_names() else "the driver shows no GPU"
    except ProgramError as error:
        return str(error)


def why_no_layers_on_gpu() -> str | None:
    """Why our layers cannot compute on a GPU here: Caffe cannot, or there is no CuPy. None if they can."""
    if reason := why_no_gpu():
        return reason
    try:
        import cupy  # noqa: F401
    except ImportError as error:
        return f"CuPy cannot be imported ({error})"
    return None


def choose_mode(option: str | None, default: str) -> str:
    """The mode of a new run: what was asked for, else ``default``, which yields to a Caffe that was built for CPU."""
    return requested_mode(option) or (default if has_cuda() else "CPU")


def set_mode(run: RunFolder, mode: str) -> None:
    """Make the run's solver ask for ``mode``."""
    solver = run.read_solver()
    value = caffe_pb2.SolverParameter.SolverMode.Value(mode)
    if solver.solver_mode != value:
        solver.solver_mode = value
        write_text(run.solver, text_format.MessageToString(solver))


def mode_of(run: RunFolder) -> str:
    """The mode that the run's solver asks for."""
    return caffe_pb2.SolverParameter.SolverMode.Name(run.read_solver().solver_mode)


def alone(run: RunFolder) -> Devices:
    """One process on what the run's solver asks for."""
    return Devices(1, (run.read_solver().device_id,) if mode_of(run) == "GPU" else None)


def add_mode_option(parser: argparse.ArgumentParser) -> None:
    """The option, for every program that writes or trains runs."""
    parser.add_argument(
        "--solver-mode",
        choices=MODES,
        help=f"where Caffe computes (default: environment variable {VARIABLE}, else what the run's solver says; "
        "a new run is written for the CPU where Caffe was built without CUDA)",
    )


VISIBLE = "CUDA_VISIBLE_DEVICES"

PAUSE = 2.0
"""Seconds between two looks at whether a GPU is free."""


def choose_gpu(visible: list[str], locks: Path, pause: float = PAUSE) -> str:
    """Lock one of the GPUs for this process and those that it becomes; wait until one is free.

    ``visible`` are their names in CUDA_VISIBLE_DEVICES, ``locks`` is a folder for a lock file each. The lock ends with
    the last process that inherited it.
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


def visible_gpus() -> list[str]:
    """What CUDA_VISIBLE_DEVICES may name on this machine; empty without a driver."""
    try:
        count = len(gpu_names())
    except ProgramError:
        return []
    named = [name.strip() for name in os.environ.get(VISIBLE, "").split(",") if name.strip()]
    return named[:count] or [str(number) for number in range(count)]
