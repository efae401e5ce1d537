"""How many threads a training process should use: measured on the net itself, not guessed."""

import os
import re
from collections.abc import Callable
from pathlib import Path

from tqdm import tqdm

from latent_domains.common.caffe_log import ending
from latent_domains.common.caffe_process import read_log, start
from latent_domains.common.program import ProgramError

_AVERAGE = re.compile(r"Average Forward-Backward: (\S+) ms")


def candidates(cores: int, jobs: int) -> list[int]:
    """Numbers of threads worth trying when ``jobs`` processes share ``cores`` cores: a process's share, and one.

    Layers gain from each core, but in nets so small that threads cost more than they bring.
    """
    return sorted({max(1, cores // jobs), 1}, reverse=True)


def milliseconds(net: Path, threads: int, iterations: int) -> float:
    """Forward and backward time of one training iteration of ``net`` by ``caffe time``, in milliseconds."""
    with start(["time", "-model", str(net.resolve()), "-iterations", str(iterations)], threads) as child:
        log = read_log(child)
    match = _AVERAGE.search(log)
    if child.returncode or not match:
        raise ProgramError(f"{net}: caffe time failed: {ending(child.returncode, log)}")
    return float(match[1])


def choose(
    net: Path, jobs: int, *, cores: int | None = None, measure: Callable[[Path, int, int], float] = milliseconds
) -> tuple[int, dict[int, float]]:
    """The fastest number of threads for ``net``, and the measured milliseconds by number of threads.

    Nothing is measured where there is nothing to choose. Each candidate is measured twice, in turns, and its
    better time counts, since other processes can only slow it down.
    """
    options = candidates(cores or len(os.sched_getaffinity(0)), jobs)
    if len(options) == 1:
        return options[0], {}
    tqdm.write("measuring an iteration by number of threads …")
    times: dict[int, float] = {}
    for _ in range(2):
        for threads in options:
            times[threads] = min(times.get(threads, float("inf")), measure(net, threads, 3))
    return min(times, key=times.__getitem__), times
