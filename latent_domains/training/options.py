"""The options of every program that trains."""

import argparse

from latent_domains.common.arguments import positive, threads
from latent_domains.runs.devices import add_mode_option


def add_training_options(parser: argparse.ArgumentParser, jobs: int | None) -> None:
    """The options of every program that trains; ``jobs`` is the default of runs side by side, None for one run."""
    if jobs is not None:
        parser.add_argument("--jobs", type=positive, default=jobs, help="runs side by side (default: %(default)s)")
    parser.add_argument(
        "--threads", type=threads, metavar="N", help="threads of each process (default: its share of the cores)"
    )
    add_mode_option(parser)
