"""Times of things that are compared: measured in turn, so that a busy machine slows both sides alike."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

MIN_ROUNDS = 7


@dataclass(frozen=True)
class Comparison:
    """Median seconds of both sides, and the median over rounds of first / second."""

    first: float
    second: float
    ratio: float
    rounds: int


def compare(first: Callable[[], object], second: Callable[[], object], seconds: float) -> Comparison:
    """Time both alternately for about ``seconds``, at least MIN_ROUNDS rounds, after one that does not count.

    Which side goes first alternates too, since each leaves the caches to the other.
    """
    sides = (first, second)
    for side in sides:
        side()
    times: list[list[float]] = [[], []]
    end = time.perf_counter() + seconds
    while len(times[0]) < MIN_ROUNDS or time.perf_counter() < end:
        order = (0, 1) if len(times[0]) % 2 == 0 else (1, 0)
        for index in order:
            start = time.perf_counter()
            sides[index]()
            times[index].append(time.perf_counter() - start)
    ratios = [one / other for one, other in zip(*times, strict=True)]
    return Comparison(median(times[0]), median(times[1]), median(ratios), len(ratios))
