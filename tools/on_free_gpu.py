"""Run a command on one GPU of this machine that no other such command uses; wait until one is free.

    python -m tools.on_free_gpu python -m tools.train --resume runs/photo

So each of several runs at once gets its own GPU. With a single GPU, or none, the command runs unchanged, because a
cluster's scheduler may have chosen the GPU.
"""

if __name__ == "__main__":
    from latent_domains.common.start import start

    start("tools.on_free_gpu")

import argparse
import os
import sys
import tempfile
from pathlib import Path

from latent_domains.common.arguments import program_parser
from latent_domains.common.gpus import VISIBLE, choose_gpu, visible_gpus
from latent_domains.common.program import ProgramError


def main() -> None:
    parser = program_parser("tools.on_free_gpu", __doc__)
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND", help="what to run, with its arguments")
    command = parser.parse_args().command
    if not command:
        parser.error("got no COMMAND to run")
    gpus = visible_gpus()
    if len(gpus) > 1:
        locks = Path(tempfile.gettempdir()) / f"latent-domains-{os.getuid()}"
        locks.mkdir(mode=0o700, exist_ok=True)
        os.environ[VISIBLE] = choose_gpu(gpus, locks)
        print(f"on GPU {os.environ[VISIBLE]}", file=sys.stderr)
    try:
        os.execvp(command[0], command)  # noqa: S606
    except OSError as error:
        raise ProgramError(f"{command[0]}: cannot be run: {error.strerror}") from error
