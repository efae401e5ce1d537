"""Reading what ``caffe train`` writes: losses, accuracies, and why it ended."""

import re
import signal
from collections.abc import Iterable
from dataclasses import dataclass

# A number must end at a space or at the line's end: so lines that two writers mixed up are not read.
_NUMBER = r"([-+]?(?:nan|inf|\d+(?:\.\d*)?(?:e[-+]?\d+)?))(?!\S)"
_ITERATION = re.compile(rf"\] Iteration (\d+)(?: \(.*\), loss = {_NUMBER}|, Testing net|, lr = {_NUMBER})")
_OUTPUT = re.compile(rf"\] +(Train|Test) net output #\d+: (\S+) = {_NUMBER}")
_PREFIX = re.compile(r"^[IWEF]\d{4,8} \S+ +\d+ \S+?\] ?")


@dataclass(frozen=True)
class Measurement:
    """One number of the log. ``phase`` is "train" or "test"; ``name`` is "loss", "lr" or a net output's name."""

    phase: str
    iteration: int
    name: str
    value: float


class History:
    """The values in a run's log, fed line by line.

    If a resumed run goes on from an earlier iteration, the values after that iteration are dropped.
    """

    def __init__(self) -> None:
        self.curves: dict[tuple[str, str], dict[int, float]] = {}
        """Values by iteration of every (phase, name)."""
        self._last = 0  # the iteration of the last measurement
        self._named = 0  # the iteration in the line before a net's outputs

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
        if self._named < self._last:
            for curve in self.curves.values():
                for iteration in [i for i in curve if i >= self._named]:
                    del curve[iteration]
        self._last = self._named
        measurement = Measurement(phase, self._last, name, float(value))
        self.curves.setdefault((phase, name), {})[self._last] = measurement.value
        return measurement


def curves(lines: Iterable[str]) -> dict[tuple[str, str], dict[int, float]]:
    """Values by iteration for every (phase, name) in a log, as :class:`History` reads it."""
    history = History()
    for line in lines:
        history.feed(line)
    return history.curves


def failure_reason(log: str) -> str:
    """The line that says why caffe ended: a Python layer's exception, a failed check, or else the last line."""
    last = log.splitlines()[-200:]
    lines = [_PREFIX.sub("", line).strip() for line in last]
    fatal = [line for line, whole in zip(lines, last, strict=True) if re.match(r"F\d{4,8} ", whole)]
    exception = [line for line in lines if re.search(r"^[A-Za-z_.]*(Error|Exception|Interrupt)\b", line)]
    said = exception or fatal or [line for line in lines if line]
    return said[-1] if said else "it printed nothing"


def ending(exit_code: int, log: str) -> str:
    """Say how a process ended: the signal that killed it, or its exit code and the reason in its log."""
    if exit_code < 0 and exit_code != -signal.SIGABRT:  # SIGABRT: a failed check, whose message is in the log
        memory = ", perhaps for its memory" if exit_code == -signal.SIGKILL else ""
        name = signal.Signals(-exit_code).name if -exit_code in set(signal.Signals) else f"signal {-exit_code}"
        return f"killed by {name}{memory}"
    return f"exit code {exit_code}: {failure_reason(log).removeprefix('error: ')}"
