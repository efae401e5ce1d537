"""Sides of a comparison that each have a process of their own and take turns: latent_domains/bench/sides.py."""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass

from latent_domains.common.caffe_process import environment
from latent_domains.common.program import ROOT, ProgramError

ROUNDS = 2
"""At least."""

SETTLE = 0.05
"""Seconds between two turns: threads that wait by spinning have gone to sleep by then."""


@dataclass(frozen=True)
class Best:
    """The least seconds and CPU seconds of a step over the rounds."""

    seconds: float
    cpu: float


class _Side:
    """A process that waits for its turns."""

    def __init__(self, arguments: Sequence[str], threads: int) -> None:
        self._arguments = arguments
        variables = environment(threads) | {"GLOG_minloglevel": "2"}
        if not arguments[0].endswith("_caffe"):
            variables.pop("OMP_WAIT_POLICY", None)  # what env.sh sets is ours
        self._stderr = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, "-m", "latent_domains.bench.sides", *arguments],
            cwd=ROOT,
            env=variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            text=True,
        )

    def turn(self) -> Best:
        """Let it take its turn."""
        with suppress(BrokenPipeError):  # it has ended: it is said below
            print(file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            self._stderr.seek(0)
            said = self._stderr.read().strip()[-1000:]
            raise ProgramError(f"{' '.join(self._arguments)} ended with {self._process.returncode}: {said}")
        return Best(*json.loads(line))

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for file in (self._process.stdin, self._process.stdout, self._stderr):
            file.close()


def take_turns(sides: Mapping[str, Sequence[str]], threads: int, seconds: float) -> dict[str, Best]:
    """The best of each of the sides, which are functions of ``sides`` with their arguments.

    They take turns for ``seconds``, at least ROUNDS rounds, after one that does not count. Raises ProgramError with
    what a side said last if it fails.
    """
    with ExitStack() as stack:
        processes = {}
        for name, arguments in sides.items():
            processes[name] = _Side(arguments, threads)
            stack.callback(processes[name].close)
        for process in processes.values():
            process.turn()
        taken: dict[str, list[Best]] = {name: [] for name in sides}
        end, rounds = time.perf_counter() + seconds, 0
        while rounds < ROUNDS or time.perf_counter() < end:
            for name, process in processes.items():
                time.sleep(SETTLE)
                taken[name].append(process.turn())
            rounds += 1
    return {
        name: Best(min(turn.seconds for turn in turns), min(turn.cpu for turn in turns))
        for name, turns in taken.items()
    }
