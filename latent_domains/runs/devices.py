"""Which processes train a run together, on which GPUs; what this Caffe and this machine must have for it."""

import argparse
import ctypes
from dataclasses import dataclass

import caffe

from latent_domains.common.caffe_process import has_cuda
from latent_domains.common.program import ProgramError

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
        raise ProgramError(f"{option}: this Caffe was built without CUDA; expected build_caffe.sh --variant cuda")
    names = gpu_names()
    gpus = tuple(range(len(names))) if chosen == ALL else tuple(chosen)
    if not names:
        raise ProgramError(f"{option}: the NVIDIA driver shows no GPU (see nvidia-smi, and CUDA_VISIBLE_DEVICES)")
    there = ", ".join(f"{number} ({name})" for number, name in enumerate(names))
    for gpu in gpus:
        if gpu >= len(names):
            raise ProgramError(f"{option}: there is no GPU {gpu}; expected one or more of {there}")
    if len(gpus) > 1 and not caffe.has_nccl():
        raise ProgramError(
            f"{option}: this Caffe was built without NCCL, which several GPUs need; expected one that was built with "
            "it, or a single GPU"
        )
    return Devices(len(gpus), gpus)


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
