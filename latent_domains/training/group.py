"""Child processes: a group with one log, in which all end when one fails; and signals that reach each child once."""

import queue
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing import Pipe
from pathlib import Path
from types import TracebackType
from typing import Self

from tqdm import tqdm

from latent_domains.common.caffe_log import ending
from latent_domains.common.caffe_process import start_logged
from latent_domains.runs.devices import Devices
from latent_domains.training.worker import LOST


class Group:
    """Running processes by their labels, each with its log on stdout. At the end of its context all have ended."""

    def __init__(self, members: Mapping[str, subprocess.Popen[str]]) -> None:
        self.members = dict(members)
        self.failure: str | None = None
        """After :meth:`lines`: which process failed and why; None if none did."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._kill()
        for process in self.members.values():
            process.wait()

    def _kill(self) -> None:
        for process in self.members.values():
            process.kill()

    def lines(self) -> Iterator[str]:
        """Yield the lines of all logs as they come, until all processes have ended.

        Lines of the first process come as they are, those of the others with their label in front. Once a process
        fails the others are killed: they would wait for it for ever.
        """
        inbox: queue.SimpleQueue[tuple[str, str | None]] = queue.SimpleQueue()
        for label, process in self.members.items():
            threading.Thread(target=_forward, args=(label, process, inbox), daemon=True).start()
        recent: dict[str, deque[str]] = {label: deque(maxlen=200) for label in self.members}
        first, running, lost = next(iter(self.members)), len(self.members), None
        while running:
            label, line = inbox.get()
            if line is not None:
                recent[label].append(line)
                yield line if label == first else f"[{label}] {line}"
                continue
            running -= 1
            if (code := self.members[label].wait()) and not self.failure:
                failure = f"{label} failed: {ending(code, ''.join(recent[label]))}"
                if code == LOST:  # another one is to blame, which has ended or does so now
                    lost = failure
                else:
                    self.failure = failure
                    self._kill()
        self.failure = self.failure or lost


def _forward(label: str, process: subprocess.Popen[str], inbox: "queue.SimpleQueue[tuple[str, str | None]]") -> None:
    """Put every line of a process's log into ``inbox``, then None."""
    with process.stdout as log:
        for line in log:
            inbox.put((label, line))
    inbox.put((label, None))


def start_workers(
    solvers: Sequence[Path],
    devices: Devices,
    threads: int,
    *,
    snapshot: Path | None = None,
    weights: Path | None = None,
) -> Group:
    """Start a process for each of ``solvers``, on ``devices``, with so many ``threads`` each.

    They begin from the solverstate ``snapshot``, the caffemodel ``weights``, or the fillers.
    """
    start_from = ["--snapshot", str(snapshot.resolve())] if snapshot else []
    if weights and not snapshot:
        start_from = ["--weights", str(weights.resolve())]
    members: dict[str, subprocess.Popen[str]] = {}
    with ExitStack() as ours:  # the processes have copies of the pipes: theirs alone keep a connection open
        pipes = [[ours.enter_context(end) for end in Pipe()] for _ in range(devices.size - 1)]
        for rank, solver in enumerate(solvers):
            ends = [first for first, _ in pipes] if rank == 0 else [pipes[rank - 1][1]]
            numbers = [end.fileno() for end in ends]
            command = [sys.executable, "-m", "latent_domains.training.worker", "--solver", str(solver.resolve())]
            command += ["--rank", str(rank), "--size", str(devices.size), "--pipes", *map(str, numbers)]
            command += ["--gpu", str(devices.gpus[rank])] if devices.gpus else []
            command += ["--nccl"] if devices.uses_nccl else []
            members[devices.label(rank)] = start_logged([*command, *start_from], threads, numbers)
    return Group(members)


SAME_SIGNAL = 1.0
"""Seconds in which a second Ctrl-C counts as the first one: ``timeout -s INT`` sends two."""


class Children:
    """The processes at work. Ctrl-C is passed on to each of them once; a second one kills them."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # the handler of one signal may interrupt that of another
        self._running: set[subprocess.Popen[str]] = set()
        self._stopped: float | None = None

    @property
    def stopping(self) -> bool:
        return self._stopped is not None

    @contextmanager
    def watch(self, children: Collection[subprocess.Popen[str]]) -> Iterator[None]:
        """Pass signals on to ``children`` while the block runs."""
        with self._lock:
            self._running.update(children)
            if self.stopping:
                for child in children:
                    child.send_signal(signal.SIGINT)
        try:
            yield
        finally:
            with self._lock:
                self._running.difference_update(children)

    @contextmanager
    def take_signals(self) -> Iterator[None]:
        """While the block runs, Ctrl-C, ``kill`` and a closed terminal stop the children and raise nothing here.

        Signals that the caller ignores (``nohup``) stay ignored.
        """
        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        before = {number: signal.getsignal(number) for number in numbers}
        try:
            for number, handler in before.items():
                if handler != signal.SIG_IGN:
                    signal.signal(number, self._stop)
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _stop(self, number: int, _: object) -> None:
        """SIGINT makes caffe write a snapshot and end."""
        with self._lock:
            again = self._stopped is not None
            if again and (number != signal.SIGINT or time.monotonic() - self._stopped < SAME_SIGNAL):
                return
            self._stopped = self._stopped or time.monotonic()
            for child in self._running:
                child.send_signal(signal.SIGKILL if again else signal.SIGINT)
        text = "killed" if again else "stopping: each run writes a snapshot first (Ctrl-C again to kill)"
        with suppress(OSError):  # the terminal may be gone
            tqdm.write(text, file=sys.stderr)
