"""A child process that ends with the block that uses it, and signals that reach each child once."""

import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Self

from tqdm import tqdm

from latent_domains.common.caffe_process import ending


class Child:
    """A running process with its log on stdout; its name in messages is ``name``.

    It ends with its context, or before.
    """

    def __init__(self, name: str, process: subprocess.Popen[str]) -> None:
        self.name = name
        self.process = process
        self.failure: str | None = None
        """Why the process failed, after :meth:`lines`; None if it did not."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.process.kill()
        self.process.stdout.close()
        self.process.wait()

    def lines(self) -> Iterator[str]:
        """Yield the lines of the log as they come, until the process has ended."""
        recent: deque[str] = deque(maxlen=200)
        for line in self.process.stdout:
            recent.append(line)
            yield line
        if code := self.process.wait():
            self.failure = f"{self.name} failed: {ending(code, ''.join(recent))}"


SAME_SIGNAL = 1.0
"""Seconds within which a second Ctrl-C counts as part of the first: ``timeout -s INT`` sends two."""


class Children:
    """The running processes. A Ctrl-C is passed on to each of them once; a second one kills them."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # one signal's handler may interrupt another's
        self._running: set[subprocess.Popen[str]] = set()
        self._stopped: float | None = None

    @property
    def stopping(self) -> bool:
        return self._stopped is not None

    @contextmanager
    def watch(self, child: subprocess.Popen[str]) -> Iterator[None]:
        """Pass signals on to ``child`` while the block runs."""
        with self._lock:
            self._running.add(child)
            if self.stopping:
                child.send_signal(signal.SIGINT)
        try:
            yield
        finally:
            with self._lock:
                self._running.discard(child)

    @contextmanager
    def take_signals(self) -> Iterator[None]:
        """During the block, Ctrl-C, ``kill`` and a closed terminal stop the children and raise nothing here.

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
        """Send SIGINT, on which caffe writes a snapshot and ends."""
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
