"""Child processes: a group with one log, in which all end when one fails; and signals that reach each child once."""

import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from tqdm import tqdm

from latent_domains.common.caffe_log import ending
from latent_domains.common.caffe_process import start_logged
from latent_domains.common.program import INTERRUPTED
from latent_domains.runs.devices import Devices
from latent_domains.training.worker import LOST

BY_CTRL_C = frozenset({-signal.SIGINT, -signal.SIGTERM, -signal.SIGHUP, INTERRUPTED})
"""Exit codes of a child that a signal ended: one to it alone, or one to our group before the child had its own.

The latter may be known before our own handler has run, which does so in the main thread.
"""

GRACE = 10.0
"""Seconds in which the process whose end another one noticed must end too."""


class Group:
    """Running processes by their labels. The log of each is read from its stdout.

    A context manager: when it is left, the processes have ended and their pipes are closed.
    """

    def __init__(self, members: Mapping[str, subprocess.Popen[str]]) -> None:
        self.members = dict(members)
        self.failure: str | None = None
        """Once :meth:`lines` is through: which process failed and why, None if none did."""
        self.interrupted = False
        """Whether that was no fault of it: see BY_CTRL_C."""
        self._readers: list[threading.Thread] = []
        self._recent: dict[str, deque[str]] = {label: deque(maxlen=200) for label in members}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.kill()
        for process in self.members.values():
            process.wait()
        for reader in self._readers:
            reader.join()  # at the end of its pipe, which it closes

    def kill(self) -> None:
        """End all that still run, at once."""
        for process in self.members.values():
            if process.poll() is None:
                process.kill()

    def lines(self) -> Iterator[str]:
        """Yield the lines of all logs as they come, until all processes have ended.

        Those of the first process come as they are, the others' with their label in front. Once a process fails the
        others are killed: they would wait for it for ever.
        """
        inbox: queue.SimpleQueue[tuple[str, str | None]] = queue.SimpleQueue()
        for label, process in self.members.items():
            self._readers.append(threading.Thread(target=_forward, args=(label, process, inbox), daemon=True))
            self._readers[-1].start()
        first, running, wait = next(iter(self.members)), len(self.members), None
        lost: str | None = None
        while running:
            try:
                label, line = inbox.get(timeout=wait)
            except queue.Empty:
                self.kill()
                break
            if line is not None:
                self._recent[label].append(line)
                yield line if label == first else f"[{label}] {line}"
                continue
            running -= 1
            code = self.members[label].wait()
            if self.failure or not code:
                continue
            if code == LOST and running:  # one of the others is to blame: it has ended, or does so now
                lost, wait = label, GRACE
                continue
            self.failure = f"{label} failed: {ending(code, ''.join(self._recent[label]))}"
            self.interrupted = code in BY_CTRL_C
            self.kill()
        if lost and not self.failure:
            self.failure = f"{lost} failed: it lost contact with the others"


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
    descriptors: tuple[int, ...] = (),
) -> Group:
    """Start a process for each of ``solvers``, on ``devices``. They inherit ``descriptors``.

    Each has so many ``threads``. They begin from the solverstate ``snapshot``, the caffemodel ``weights``, or the
    fillers.
    """
    with ExitStack() as ours:  # the processes have copies of the sockets: theirs alone keep a connection open
        pairs = [socket.socketpair() for _ in range(devices.size - 1)]
        for pair in pairs:
            for end in pair:
                ours.enter_context(end)
        members: dict[str, subprocess.Popen[str]] = {}
        try:
            for rank, solver in enumerate(solvers):
                ends = [pair[0] for pair in pairs] if rank == 0 else [pairs[rank - 1][1]]
                numbers = tuple(end.fileno() for end in ends)
                command = [sys.executable, "-m", "latent_domains.training.worker"]
                command += ["--solver", str(solver.resolve())]
                command += ["--rank", str(rank), "--size", str(devices.size)]
                if devices.gpus is not None:
                    command += ["--gpu", str(devices.gpus[rank])]
                if devices.uses_nccl:
                    command += ["--nccl"]
                if snapshot:
                    command += ["--snapshot", str(snapshot.resolve())]
                elif weights:
                    command += ["--weights", str(weights.resolve())]
                if numbers:
                    command += ["--sockets", *map(str, numbers)]
                members[devices.label(rank)] = start_logged(command, threads, (*descriptors, *numbers))
        except BaseException:
            Group(members).kill()
            raise
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
    def watch(self, child: subprocess.Popen[str]) -> Iterator[None]:
        """Pass signals on to ``child`` while the block runs; an error in the block kills it."""
        with self._lock:
            self._running.add(child)
            if self.stopping:
                child.send_signal(signal.SIGINT)
        try:
            yield
        except BaseException:  # the log could not be written, say: caffe must not go on alone
            child.kill()
            raise
        finally:
            with self._lock:
                self._running.discard(child)

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
