"""Where Caffe computes a run: GPU or CPU, and on which GPUs; the options that say so."""

import argparse
import os
from dataclasses import dataclass

import caffe
from caffe.proto import caffe_pb2
from google.protobuf import text_format

from latent_domains.common.arguments import positive, threads
from latent_domains.common.files import write_text
from latent_domains.common.gpus import expect_gpu, gpu_names, has_cuda, why_no_gpu
from latent_domains.common.program import ProgramError
from latent_domains.runs.run_folder import RunFolder

ALL = "all"


@dataclass(frozen=True)
class Devices:
    """Where the processes of one run compute: one on each of ``gpus``; without GPUs ``size`` of them on the CPU."""

    size: int
    gpus: tuple[int, ...] | None = None

    def label(self, rank: int) -> str:
        """What a process is called in logs and messages."""
        return f"process {rank}" if self.gpus is None else f"GPU {self.gpus[rank]}"

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
    if len(set(gpus)) < len(gpus):
        raise argparse.ArgumentTypeError(f"got {text!r}, expected each GPU once")
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


def one_process(run: RunFolder) -> Devices:
    """One process on what the run's solver asks for."""
    return Devices(1, (run.read_solver().device_id,) if mode_of(run) == "GPU" else None)


def add_mode_option(parser: argparse.ArgumentParser) -> None:
    """The option, for every program that writes or trains runs."""
    parser.add_argument(
        "--solver-mode",
        choices=MODES,
        help=f"where Caffe computes (default: environment variable {VARIABLE}, else the run's solver; "
        "a new run is written for the CPU where Caffe was built without CUDA)",
    )


def add_training_options(parser: argparse.ArgumentParser, jobs: int | None) -> None:
    """The options of every program that trains; ``jobs`` is the default of runs side by side, None for one run."""
    if jobs is not None:
        parser.add_argument("--jobs", type=positive, default=jobs, help="runs side by side (default: %(default)s)")
    parser.add_argument(
        "--threads", type=threads, metavar="N", help="threads of each process (default: its share of the cores)"
    )
    add_mode_option(parser)
