"""Reading what ``caffe train`` writes: losses, accuracies, and why it ended."""

import re
import signal
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime

# A number ends at a space or the line's end: when two writers' lines run into one another, neither is read.
_NUMBER = r"([-+]?(?:nan|inf|\d+(?:\.\d*)?(?:e[-+]?\d+)?))(?!\S)"
_ITERATION = re.compile(rf"\] Iteration (\d+)(?: \(.*\), loss = {_NUMBER}|, Testing net|, lr = {_NUMBER})")
_OUTPUT = re.compile(rf"\] +(Train|Test) net output #\d+: (\S+) = {_NUMBER}")
_PREFIX = re.compile(r"^[IWEF]\d{4,8} \S+ +\d+ \S+?\] ?")
_TIME = re.compile(r"^[IWEF](\d{8} \d\d:\d\d:\d\d\.\d{1,6}) ")


@dataclass(frozen=True)
class Measurement:
    """One number of the log. ``phase`` is "train" or "test"; ``name`` is "loss", "lr" or a net output's name.

    ``time`` is when it was logged, in seconds since the epoch; None where the log has no year.
    """

    phase: str
    iteration: int
    name: str
    value: float
    time: float | None = field(default=None, compare=False)


def _time(line: str) -> float | None:
    """When a line was logged, if it says so: glog writes local time."""
    if match := _TIME.match(line):
        with suppress(ValueError):  # 61 minutes, say
            return datetime.strptime(match[1], "%Y%m%d %H:%M:%S.%f").timestamp()
    return None


class History:
    """The measurements of a run's log, fed line by line: by (phase, name), by iteration.

    Where a resumed run goes on from further back, what had been measured after that is dropped.
    """

    def __init__(self) -> None:
        self.measurements: dict[tuple[str, str], dict[int, Measurement]] = {}
        self.iteration = 0
        """The last iteration that something was measured at."""
        self._named = 0  # by the line that comes before a net's outputs

    def feed(self, line: str) -> Measurement | None:
        """The measurement in ``line``, if there is one."""
        phase, name, value = "train", "loss", None
        if match := _ITERATION.search(line):
            self._named, value = int(match[1]), match[2] or match[3]
            name = "loss" if match[2] else "lr"
        elif match := _OUTPUT.search(line):
            phase, name, value = match[1].lower(), match[2], match[3]
        if value is None:
            return None
        if self._named < self.iteration:
            for found in self.measurements.values():
                for iteration in [i for i in found if i >= self._named]:
                    del found[iteration]
        self.iteration = self._named
        measurement = Measurement(phase, self.iteration, name, float(value), _time(line))
        self.measurements.setdefault((phase, name), {})[self.iteration] = measurement
        return measurement


def history(lines: Iterable[str]) -> History:
    """The history of a whole log."""
    found = History()
    for line in lines:
        found.feed(line)
    return found


def curves(lines: Iterable[str]) -> dict[tuple[str, str], dict[int, float]]:
    """Values by iteration of every (phase, name) in a log; see :class:`History` for those of a resumed run."""
    return {
        key: {iteration: measurement.value for iteration, measurement in found.items()}
        for key, found in history(lines).measurements.items()
    }


def failure_reason(log: str) -> str:
    """The line that says why caffe ended: the exception of a Python layer, or the check that failed."""
    last = log.splitlines()[-200:]
    lines = [_PREFIX.sub("", line).strip() for line in last]
    fatal = [line for line, whole in zip(lines, last, strict=True) if re.match(r"F\d{4,8} ", whole)]
    exception = [line for line in lines if re.search(r"^[A-Za-z_.]*(Error|Exception|Interrupt)\b", line)]
    if exception or fatal:
        return (exception or fatal)[-1]
    for pattern in (r"Check failed", r"(?i)\berror\b|not found|cannot"):
        for line in reversed(lines):
            if re.search(pattern, line):
                return line
    return next((line for line in reversed(lines) if line), "it printed nothing")


def ending(exit_code: int, log: str) -> str:
    """Say how a process ended: the signal that killed it, or its exit code and the reason in its log."""
    if exit_code < 0 and exit_code != -signal.SIGABRT:  # a failed check aborts, and says why
        memory = ", perhaps for its memory" if exit_code == -signal.SIGKILL else ""
        name = signal.Signals(-exit_code).name if -exit_code in set(signal.Signals) else f"signal {-exit_code}"
        return f"killed by {name}{memory}"
    return f"exit code {exit_code}: {failure_reason(log).removeprefix('error: ')}"
