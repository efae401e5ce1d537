"""One GPU for each of the commands that run side by side."""

import fcntl
import os
import sys
import time
from pathlib import Path

from latent_domains.common.program import ProgramError
from latent_domains.runs.devices import gpu_names

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
