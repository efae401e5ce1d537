"""Image file → serialised Datum, bit for bit as ``convert_imageset`` makes it, in one or several processes."""

import ctypes
import mmap
import multiprocessing
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path

import cv2
import numpy as np

from latent_domains.common.program import ProgramError
from latent_domains.data.image_list import Entry
from latent_domains.data.lmdb_io import encoded_datum, image_datum

CHUNK = 16
"""Images handed to a process at a time."""

SLOT = 4 << 20
"""Bytes of shared memory for the Datums of a chunk: 16 raw ones of 256×256×3 fit."""

SLOTS = 3
"""Chunks a process may be ahead of the reader."""


@dataclass(frozen=True)
class Format:
    """How an image is stored."""

    resize: tuple[int, int] | None = None
    """Height and width in pixels, or None: as it is."""
    gray: bool = False
    encoded: str | None = None
    """``jpg`` or ``png``: stored as such a file; None: raw pixels."""


@dataclass(frozen=True)
class Made:
    """A serialised Datum, or why there is none."""

    datum: bytes
    shape: tuple[int, ...]
    """Of the image: H×W or H×W×3."""
    failure: str | None = None


def make(file: Path, label: int, form: Format) -> Made:
    """Read, resize (bilinear) and store one image.

    Some versions of OpenCV fill what a JPEG that was cut short lacks with gray and say nothing; here it is a failure
    like any other.
    """
    try:
        data = file.read_bytes()
    except OSError as error:
        return Made(b"", (), error.strerror or str(error))
    flags = cv2.IMREAD_GRAYSCALE if form.gray else cv2.IMREAD_COLOR
    try:
        image = cv2.imdecode(np.frombuffer(data, np.uint8), flags) if data else None
    except cv2.error as error:  # more pixels than OpenCV accepts
        return Made(b"", (), f"OpenCV refuses it: {error.err}")
    if _cut_short(data):
        return Made(b"", (), f"a JPEG that was cut short after {len(data)} bytes")
    if image is None:
        return Made(b"", (), f"{len(data)} bytes that OpenCV cannot decode as an image")
    if form.resize is not None:
        height, width = form.resize
        image = cv2.resize(image, (width, height))
    if form.encoded is None:
        datum = image_datum(image, label)
    elif form.resize is None and not form.gray and _suffix(file) == form.encoded:
        datum = encoded_datum(data, label)  # it is what is asked for: no second loss
    else:
        datum = encoded_datum(cv2.imencode("." + form.encoded, image)[1].tobytes(), label)
    return Made(datum.SerializeToString(), image.shape)


def _cut_short(data: bytes) -> bool:
    """Whether a JPEG's end-of-image marker is missing after its last start of scan.

    Neither marker can occur inside a scan, where every byte FF is followed by 00 or a restart number.
    """
    return data.startswith(b"\xff\xd8") and data.rfind(b"\xff\xd9") < data.rfind(b"\xff\xda")


def _suffix(file: Path) -> str:
    suffix = file.suffix.lower().removeprefix(".")
    return "jpg" if suffix == "jpeg" else suffix


def make_all(entries: Sequence[Entry], form: Format, jobs: int) -> Iterator[Made]:
    """Yield what ``make`` returns for each entry, in order. With ``jobs`` > 1 that many processes do the work.

    Process w of n makes the chunks w, w + n, w + 2n, … and is never more than SLOTS chunks ahead, so a slow reader of
    the results does not fill the memory. Raises ProgramError if a process dies.
    """
    cv2.setNumThreads(1)  # the processes are the parallelism; also, threads do not survive a fork
    if jobs == 1:
        for entry in entries:
            yield make(entry.file, entry.label, form)
        return
    chunks = [entries[start : start + CHUNK] for start in range(0, len(entries), CHUNK)]
    workers: list[_Worker] = []
    try:
        with _ctrl_c_held_back():
            for first in range(min(jobs, len(chunks))):
                workers.append(_Worker(chunks[first::jobs], form))
        for number in range(len(chunks)):
            yield from workers[number % jobs].next_chunk()
    finally:
        for worker in workers:
            worker.end()


@contextmanager
def _ctrl_c_held_back() -> Iterator[None]:
    """Processes started here never see Ctrl-C: it is the parent's, which gets it afterwards."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_Sent = list[tuple[Made, slice | None]]
"""A chunk as a process sends it: a Datum lies in the shared memory at the slice or, without room there, in Made."""


class _Worker:
    """A process that makes chunks one after the other, and the parent's end of the pipe to it."""

    def __init__(self, chunks: Sequence[Sequence[Entry]], form: Format) -> None:
        self._shared = mmap.mmap(-1, SLOTS * SLOT)
        self._pipe, far_end = multiprocessing.Pipe()
        arguments = (chunks, form, self._shared, far_end)
        self._process = multiprocessing.get_context("fork").Process(target=_work, args=arguments, daemon=True)
        self._process.start()
        far_end.close()  # now the pipe ends with the process

    def next_chunk(self) -> Iterator[Made]:
        """Yield the next chunk's results, then give its place in the shared memory back."""
        try:
            sent: _Sent = self._pipe.recv()
        except (EOFError, ConnectionError) as error:
            self._process.join()
            raise ProgramError(
                f"a decoding process died with exit code {self._process.exitcode} (-9: killed, perhaps for its memory)"
            ) from error
        for made, place in sent:
            yield made if place is None else replace(made, datum=self._shared[place])
        with suppress(ConnectionError):  # it may have made its last chunk and be gone
            self._pipe.send_bytes(b"free")

    def end(self) -> None:
        """Kill the process, whatever it is doing, and wait until it is gone."""
        self._process.kill()
        self._process.join()
        self._pipe.close()
        self._shared.close()


def _work(chunks: Sequence[Sequence[Entry]], form: Format, shared: mmap.mmap, pipe: Connection) -> None:
    """Make all chunks, each into the next slot as soon as the parent has given it back."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    for number, chunk in enumerate(chunks):
        if number >= SLOTS:
            pipe.recv_bytes()
        slot = number % SLOTS
        pipe.send(_make_chunk(chunk, form, shared, slot * SLOT, (slot + 1) * SLOT))


_PR_SET_PDEATHSIG = 1
"""prctl(2): the signal a process gets when its parent dies."""


def _make_chunk(chunk: Sequence[Entry], form: Format, shared: mmap.mmap, start: int, end: int) -> _Sent:
    """Make a chunk's Datums and lay them into the shared memory from ``start`` to ``end``, one behind the other."""
    sent: _Sent = []
    for entry in chunk:
        made = make(entry.file, entry.label, form)
        place = slice(start, start + len(made.datum))
        if place.stop > end:
            sent.append((made, None))
            continue
        shared[place] = made.datum
        start = place.stop
        sent.append((replace(made, datum=b""), place))
    return sent
