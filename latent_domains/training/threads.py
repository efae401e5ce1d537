"""How many threads a training process gets, and how long an iteration takes with them."""

import os
import re
from pathlib import Path

from latent_domains.common.caffe_log import ending
from latent_domains.common.caffe_process import read_log, start
from latent_domains.common.program import ProgramError

_AVERAGE = re.compile(r"Average Forward-Backward: (\S+) ms")


def share_of_cores(processes: int) -> int:
    """The threads of one of several processes that share the cores of this machine."""
    return max(1, len(os.sched_getaffinity(0)) // processes)


def milliseconds(net: Path, threads: int, iterations: int = 3) -> float:
    """Forward and backward time of one training iteration of ``net`` by ``caffe time``, in milliseconds."""
    with start(["time", "-model", str(net.resolve()), "-iterations", str(iterations)], threads) as child:
        log = read_log(child)
    match = _AVERAGE.search(log)
    if child.returncode or not match:
        raise ProgramError(f"{net}: caffe time failed: {ending(child.returncode, log)}")
    return float(match[1])
