"""The rows of a speed table: what each measures, its goal, and how it is printed.

The two sides of a comparison take turns, so that a busy machine slows both equally.
"""

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from statistics import median

from latent_domains.common.program import ProgramError

Step = Callable[[], object]

Shape = tuple[int, ...]

MIN_ROUNDS = 7


@dataclass(frozen=True)
class Extent:
    """How long to measure: ``seconds`` for each comparison; ``smallest``: one step on little data, as a test."""

    seconds: float
    smallest: bool = False

    def shape(self, shape: Shape) -> Shape:
        """Return the shape of a blob: ``shape``, or a small one for the smallest extent."""
        return tuple(min(size, 4) for size in shape) if self.smallest else shape


@dataclass(frozen=True)
class TimedDevice:
    """The device of the steps. ``steps`` of them are started together; ``wait`` returns when the device has finished.

    ``make_copy(bytes)`` makes a step that copies this many bytes within the device.
    """

    steps: int = 1
    wait: Step | None = None
    make_copy: Callable[[int], Step] | None = None

    def repeated(self, step: Step) -> Step:
        """Return a function that starts all steps and waits once."""

        def run_steps() -> None:
            for _ in range(self.steps):
                step()
            if self.wait is not None:
                self.wait()

        return run_steps


CPU = TimedDevice()


@dataclass(frozen=True)
class Measured:
    """A row's result: the ``value`` to compare with the goal, and its parts in words."""

    value: float
    detail: str


@dataclass(frozen=True)
class SpeedRow:
    """One row. The goal is met if value >= goal or, with ``at_most``, if value <= goal. None: no goal."""

    name: str
    what: str
    goal: float | None
    at_most: bool
    measure: Callable[[Extent], Measured]

    def met(self, value: float) -> bool:
        """Say whether ``value`` meets the goal."""
        if self.goal is None:
            return True
        return value <= self.goal if self.at_most else value >= self.goal


def time_alternately(first: Step, second: Step, seconds: float) -> tuple[float, float, float]:
    """Return median seconds of both steps, and the median over rounds of first / second.

    They alternate for about ``seconds``, at least MIN_ROUNDS rounds, after one that does not count. They also take
    turns in going first, since each finds the other's data in the caches.
    """
    steps = (first, second)
    for step in steps:
        step()
    times: list[list[float]] = [[], []]
    end = time.perf_counter() + seconds
    while len(times[0]) < MIN_ROUNDS or time.perf_counter() < end:
        for index in (0, 1) if len(times[0]) % 2 == 0 else (1, 0):
            start = time.perf_counter()
            steps[index]()
            times[index].append(time.perf_counter() - start)
    return median(times[0]), median(times[1]), median(one / other for one, other in zip(*times, strict=True))


def ratio(make: Callable[[Extent], Mapping[str, Step]], device: TimedDevice = CPU) -> Callable[[Extent], Measured]:
    """Return a function that measures a row: the time of the first step of ``make(extent)`` divided by the second's."""

    def measure(extent: Extent) -> Measured:
        steps = make(extent)
        *times, found = time_alternately(*map(device.repeated, steps.values()), extent.seconds)
        detail = (f"{name} {1e3 * time / device.steps:.3g} ms" for name, time in zip(steps, times, strict=True))
        return Measured(found, ", ".join(detail))

    return measure


def choose(rows: Sequence[SpeedRow], patterns: Sequence[str] | None) -> list[SpeedRow]:
    """Return the rows whose names match one of the patterns; without patterns all. Refuses patterns without a match."""
    chosen = [row for row in rows if not patterns or any(fnmatch(row.name, pattern) for pattern in patterns)]
    if not chosen:
        names = ", ".join(row.name for row in rows)
        raise ProgramError(f"--only {' '.join(patterns or [])}: no such row; the rows are {names}")
    return chosen


def print_rows(rows: Sequence[SpeedRow], extent: Extent) -> None:
    """Measure each row and print its line."""
    width = max(len(row.name) for row in rows)
    print(f"{'row':{width}}  {'what':23}  {'measured':>9}  {'goal':>7}  {'':6}  of")
    for row in rows:
        result = row.measure(extent)
        gc.collect()  # frees the row's nets
        goal = "" if row.goal is None else f"{'≤' if row.at_most else '≥'} {row.goal:g}×"
        verdict = "" if row.goal is None else "met" if row.met(result.value) else "MISSED"
        measured = f"{result.value:.2f}×"
        print(f"{row.name:{width}}  {row.what:23}  {measured:>9}  {goal:>7}  {verdict:6}  {result.detail}", flush=True)
