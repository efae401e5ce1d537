"""Stdout and stderr as programs write to them: what an error of theirs is about, and where a line begins."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO


class Stream:
    """A stream whose errors name it, and that knows whether what was last written left the cursor within a line."""

    def __init__(self, stream: TextIO, name: str) -> None:
        self._stream, self._name = stream, name
        self.within_line = False

    def write(self, text: str) -> int:
        """Write, as any stream does."""
        self.within_line |= bool(text)  # whatever becomes of this
        with self._named():
            written = self._stream.write(text)
        if text:
            self.within_line = not text.endswith(("\n", "\r"))
        return written

    def flush(self) -> None:
        """Flush, as any stream does."""
        with self._named():
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.filename is None:
                error.filename = self._name
            raise


def _nowhere() -> TextIO:
    """It takes the number of the stream that is closed: else a file of data would, and what C code says with it."""
    return Path(os.devnull).open("w")


@contextmanager
def watched() -> Iterator[Stream]:
    """Let stdout and stderr be such streams, and yield the latter. What goes to one that is closed goes nowhere."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = Stream(before[0] or _nowhere(), "stdout"), Stream(before[1] or _nowhere(), "stderr")
    try:
        yield sys.stderr
    finally:
        sys.stdout, sys.stderr = before
