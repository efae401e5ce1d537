"""Sides of a comparison that each have a process of their own and take turns.

``python -m latent_domains.bench.turns`` is such a process. The first line of its stdin is a side, pickled; it takes its
turn at each further one.
"""

import json
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass

import caffe

from latent_domains.bench.extent import Extent
from latent_domains.common.caffe_process import environment
from latent_domains.common.program import ROOT, ProgramError, run

Side = Callable[[int], Callable[[], object]]
"""Loads what it needs, on so many threads, and returns the step that is timed; one of ``sides`` with its arguments."""

OURS = "Caffe"
"""The name of our side in each comparison."""

ROUNDS = 2
"""At least."""

TURN = 0.3
"""Seconds that a turn lasts at least: shorter steps are repeated."""

SETTLE = 0.05
"""Seconds between two turns: threads that wait by spinning have gone to sleep by then."""


@dataclass(frozen=True)
class Best:
    """The least seconds and CPU seconds (of all threads) of a step over the rounds."""

    seconds: float
    cpu: float


class _Process:
    """A process that waits for its turns."""

    def __init__(self, name: str, side: Side, threads: int) -> None:
        self._name = name
        variables = environment(threads) | {"GLOG_minloglevel": "2"}
        if name != OURS:
            variables.pop("OMP_WAIT_POLICY", None)  # what env.sh sets is ours
        self._stderr = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            cwd=ROOT,
            env=variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            text=True,
        )
        self._send(pickle.dumps((side, threads)).hex())

    def _send(self, line: str) -> None:
        with suppress(BrokenPipeError):  # it has ended: turn() says so
            print(line, file=self._process.stdin, flush=True)

    def turn(self) -> Best:
        """Let it take its turn."""
        self._send("")
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            self._stderr.seek(0)
            said = self._stderr.read().strip()[-1000:]
            raise ProgramError(f"{self._name} ended with {self._process.returncode}: {said}")
        return Best(**json.loads(line))

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for file in (self._process.stdin, self._process.stdout, self._stderr):
            with suppress(BrokenPipeError):
                file.close()


def take_turns(sides: Mapping[str, Side], threads: int, extent: Extent) -> dict[str, Best]:
    """The best of each of the sides, by their names.

    They take turns for the extent's seconds, at least ROUNDS rounds, after one that does not count; the smallest extent
    is one step of each, in this process. Raises ProgramError with what a side said last if it fails.
    """
    if extent.smallest:
        return {name: _turn(side(threads), 0) for name, side in sides.items()}
    with ExitStack() as stack:
        processes = {}
        for name, side in sides.items():
            processes[name] = _Process(name, side, threads)
            stack.callback(processes[name].close)
        for process in processes.values():
            process.turn()
        taken: dict[str, list[Best]] = {name: [] for name in sides}
        end, rounds = time.perf_counter() + extent.seconds, 0
        while rounds < ROUNDS or time.perf_counter() < end:
            for name, process in processes.items():
                time.sleep(SETTLE)
                taken[name].append(process.turn())
            rounds += 1
    return {
        name: Best(min(turn.seconds for turn in turns), min(turn.cpu for turn in turns))
        for name, turns in taken.items()
    }


def _turn(step: Callable[[], object], seconds: float) -> Best:
    start, cpu, steps = time.perf_counter(), time.process_time(), 0
    while (elapsed := time.perf_counter() - start) < seconds or steps == 0:
        step()
        steps += 1
    return Best(elapsed / steps, (time.process_time() - cpu) / steps)


def main() -> None:
    caffe.set_mode_cpu()
    side, threads = pickle.loads(bytes.fromhex(sys.stdin.readline()))  # noqa: S301 (take_turns wrote it)
    step = side(threads)
    for _ in sys.stdin:
        print(json.dumps(asdict(_turn(step, TURN))), flush=True)


if __name__ == "__main__":
    run(main)
