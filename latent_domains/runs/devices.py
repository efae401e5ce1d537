"""Where Caffe computes a run, on a GPU or the CPU, and the options for it."""

import argparse
import os

from caffe.proto import caffe_pb2
from google.protobuf import text_format

from latent_domains.common.arguments import positive, threads
from latent_domains.common.files import write_text
from latent_domains.common.gpus import has_cuda, why_no_gpu
from latent_domains.common.program import ProgramError
from latent_domains.runs.run_folder import RunFolder

MODES = ("GPU", "CPU")

VARIABLE = "SOLVER_MODE"


def requested_mode(option: str | None) -> str | None:
    """Return the mode from the option or the environment variable; None if neither is given."""
    if option is not None:
        return option
    value = os.environ.get(VARIABLE) or None
    if value is not None and value not in MODES:
        raise ProgramError(f"environment variable {VARIABLE}: got {value!r}, expected {' or '.join(MODES)}")
    return value


def check_available(mode: str | None, who: str) -> None:
    """Raise ProgramError, beginning with ``who``, if this Caffe or this machine lacks what ``mode`` needs."""
    if mode == "GPU" and (reason := why_no_gpu()):
        raise ProgramError(f"{who}, but {reason}: pass --solver-mode CPU (or set {VARIABLE}=CPU)")


def choose_mode(option: str | None, default: str) -> str:
    """Return the mode of a new run: the requested one, else ``default``, but CPU if Caffe was built without CUDA."""
    return requested_mode(option) or (default if has_cuda() else "CPU")


def set_mode(run: RunFolder, mode: str) -> None:
    """Write ``mode`` into the run's solver."""
    solver = run.read_solver()
    value = caffe_pb2.SolverParameter.SolverMode.Value(mode)
    if solver.solver_mode != value:
        solver.solver_mode = value
        write_text(run.solver, text_format.MessageToString(solver))


def mode_of(run: RunFolder) -> str:
    """Return the mode in the run's solver."""
    return caffe_pb2.SolverParameter.SolverMode.Name(run.read_solver().solver_mode)


def add_mode_option(parser: argparse.ArgumentParser) -> None:
    """Add the option, for every program that writes or trains runs."""
    parser.add_argument(
        "--solver-mode",
        choices=MODES,
        help=f"where Caffe computes (default: environment variable {VARIABLE}, else the run's solver; "
        "new runs use the CPU if Caffe was built without CUDA)",
    )


def add_training_options(parser: argparse.ArgumentParser, jobs: int | None) -> None:
    """Add the options of programs that train. ``jobs``: the default number of parallel runs; None: one run."""
    if jobs is not None:
        parser.add_argument("--jobs", type=positive, default=jobs, help="runs at the same time (default: %(default)s)")
    parser.add_argument(
        "--threads", type=threads, metavar="N", help="threads of each process (default: its share of the cores)"
    )
    add_mode_option(parser)
