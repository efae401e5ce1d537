"""Child processes that are stopped cleanly: each gets a signal once."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from tqdm import tqdm

if TYPE_CHECKING:
    pass


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
