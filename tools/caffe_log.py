"""Reading what ``caffe train`` writes: losses, accuracies, and why it ended."""

import re
import signal
from collections.abc import Iterable
from dataclasses import dataclass

# A number ends at a space or the line's end: when two writers' lines run into one another, neither is read.
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


class LogReader:
    """Reads the log line by line; it has state, since outputs follow the line that names their iteration."""

    def __init__(self) -> None:
        self._iteration = 0

    def feed(self, line: str) -> Measurement | None:
        """The measurement in ``line``, if there is one."""
        if match := _ITERATION.search(line):
            self._iteration = int(match[1])
            if match[2] is not None:
                return Measurement("train", self._iteration, "loss", float(match[2]))
            if match[3] is not None:
                return Measurement("train", self._iteration, "lr", float(match[3]))
        elif match := _OUTPUT.search(line):
            return Measurement(match[1].lower(), self._iteration, match[2], float(match[3]))
        return None


def curves(lines: Iterable[str]) -> dict[tuple[str, str], dict[int, float]]:
    """Values by iteration of every (phase, name) in a log.

    Where a resumed run went over the same iterations again, the later values stand.
    """
    found: dict[tuple[str, str], dict[int, float]] = {}
    reader = LogReader()
    for line in lines:
        if measurement := reader.feed(line):
            found.setdefault((measurement.phase, measurement.name), {})[measurement.iteration] = measurement.value
    return found


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
    """How a process ended, in words: the signal that killed it, or its exit code and the reason in its log."""
    if exit_code < 0 and exit_code != -signal.SIGABRT:  # a failed check aborts, and says why
        memory = ", perhaps for its memory" if exit_code == -signal.SIGKILL else ""
        return f"killed by {signal.Signals(-exit_code).name}{memory}"
    return f"exit code {exit_code}: {failure_reason(log).removeprefix('error: ')}"
