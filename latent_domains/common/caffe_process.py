"""The ``caffe`` binary as a child process, and what its log says."""

import os
import re
import shutil
import signal
import site
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from latent_domains.common.program import ROOT, ProgramError

UNMOVED_BY_SIGTERM = ("env", "--block-signal=TERM", "sh", "-c", 'exec "$0" "$@"')
"""Command prefix of a child that SIGTERM does not end. SLURM sends SIGTERM to every process of a job, and caffe would
end before it has written a snapshot. The signal is blocked, not ignored: glog in caffe sets its own handler. The shell
is there because env takes a program whose path has an = for a variable."""

_ENDING_WITH_PARENT = ("setpriv", "--pdeathsig", "KILL", "sh", "-c", '[ $PPID = $0 ] || kill -KILL $$; exec "$@"')
"""Command prefix of a child that the kernel kills when its parent ends. The parent's id comes next: with it the shell
checks that the parent has not ended before the kernel was told."""


def ending_with_parent(command: Sequence[str]) -> list[str]:
    """Return the command of a child that the kernel kills when the thread that started it ends.

    Otherwise a child would go on unnoticed after its parent was killed, perhaps for using too much memory.
    """
    return [*_ENDING_WITH_PARENT, str(os.getpid()), *command]


def caffe_binary() -> str:
    """Return the path of the ``caffe`` on PATH."""
    found = shutil.which("caffe")
    if found is None:
        raise ProgramError("no caffe on PATH: run '. ./env.sh' in the repository root (after 'make setup')")
    return found


def environment(threads: int) -> dict[str, str]:
    """Return a child's environment: ``threads`` threads for layers, one for BLAS, no progress bars.

    BLAS gets one because layers divide the work themselves. ``caffe`` embeds Python and ignores virtual environments.
    So PYTHONPATH names this environment's packages, pycaffe's folder and the repository.
    """
    import caffe

    paths = [str(ROOT), str(Path(caffe.__file__).parent.parent), *site.getsitepackages()]
    paths += [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path and path not in paths]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "OPENBLAS_NUM_THREADS": "1",
        "NUMBA_NUM_THREADS": str(threads),
        "OMP_NUM_THREADS": str(threads),
        "TQDM_DISABLE": "1",
        "GLOG_logtostderr": "1",
        "GLOG_minloglevel": "0",
    }


def start(arguments: list[str], threads: int) -> subprocess.Popen[str]:
    """Start ``caffe ARGUMENTS``: see :func:`start_logged`."""
    return start_logged([*UNMOVED_BY_SIGTERM, caffe_binary(), *arguments], threads)


def start_logged(command: list[str], threads: int) -> subprocess.Popen[str]:
    """Start a program that runs Caffe, in the repository root; its log is read from the child's stdout.

    The child has its own session, so Ctrl-C reaches it only if we pass it on, once. It ends when the calling thread
    ends, or before.
    """
    return subprocess.Popen(
        ending_with_parent(command),
        cwd=ROOT,
        env=environment(threads),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )


def read_log(child: subprocess.Popen[str]) -> str:
    """Return the whole log of a child that ends by itself. Ctrl-C kills it, since it would go on alone."""
    try:
        return child.stdout.read()
    except BaseException:
        child.kill()
        raise


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
    """The values in a run's log, read line by line.

    If a resumed run continues from an earlier iteration, the values after that iteration are dropped.
    """

    def __init__(self) -> None:
        self.curves: dict[tuple[str, str], dict[int, float]] = {}
        """Values by iteration of every (phase, name)."""
        self._last = 0  # the iteration of the last measurement
        self._named = 0  # the iteration in the line before a net's outputs

    def feed(self, line: str) -> Measurement | None:
        """Return the measurement in ``line``, if there is one."""
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
    """Return the values by iteration for every (phase, name) in a log, as :class:`History` reads it."""
    history = History()
    for line in lines:
        history.feed(line)
    return history.curves


def failure_reason(log: str) -> str:
    """Return the line that says why caffe ended: a Python layer's exception, a failed check, or else the last line."""
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
