"""The options of every program that trains."""

import argparse

from latent_domains.common.arguments import positive
from latent_domains.common.caffe_process import Threads
from latent_domains.runs.devices import add_mode_option


def _threads(text: str) -> Threads:
    try:
        blas, kernels = map(int, text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"got {text!r}, expected BLAS,KERNELS such as 1,2") from None
    if min(blas, kernels) < 1:
        raise argparse.ArgumentTypeError(f"got {text!r}, expected at least one thread of each")
    return Threads(blas, kernels)


def add_training_options(parser: argparse.ArgumentParser, jobs: int | None) -> None:
    """The options of every program that trains; ``jobs`` is the default of runs side by side, None for one run."""
    if jobs is not None:
        parser.add_argument("--jobs", type=positive, default=jobs, help="runs side by side (default: %(default)s)")
    parser.add_argument("--threads", type=_threads, metavar="BLAS,KERNELS", help="threads a run (default: measured)")
    add_mode_option(parser)
