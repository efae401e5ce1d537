"""Run a command on one GPU that no other such command uses, of those that this machine shows; wait for one to be free.

    python -m tools.one_gpu python -m tools.train --resume runs/photo

Several runs side by side get a GPU each so. Where there is a single GPU, or none, the command is run as it is: a
cluster's scheduler has chosen then.
"""

import argparse
import fcntl
import os
import sys
import tempfile
import time
from pathlib import Path

from tools.parallel.devices import gpu_names
from tools.program import ProgramError, run

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


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tools.one_gpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
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


if __name__ == "__main__":
    run(main)
