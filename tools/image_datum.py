"""Image file → serialised Datum, bit for bit as ``convert_imageset`` makes it, in one or several processes."""

import mmap
import multiprocessing
import signal
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import cv2

from tools.image_list import Entry
from tools.lmdb_io import encoded_datum, image_datum
from tools.program import ProgramError

CHUNK = 16
"""Images handed to a process at a time."""

SLOT = 4 << 20
"""Bytes of shared memory for the Datums of a chunk: 16 raw ones of 256×256×3 fit."""


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
    """Read, resize (bilinear) and store one image."""
    image = cv2.imread(str(file), cv2.IMREAD_GRAYSCALE if form.gray else cv2.IMREAD_COLOR)
    if image is None:
        if not file.exists():
            return Made(b"", (), "no such file")
        return Made(b"", (), "OpenCV cannot read it as an image")
    if form.resize is not None:
        height, width = form.resize
        image = cv2.resize(image, (width, height))
    if form.encoded is None:
        datum = image_datum(image, label)
    elif form.resize is None and not form.gray and _suffix(file) == form.encoded:
        datum = encoded_datum(file.read_bytes(), label)  # it is what is asked for: no second loss
    else:
        datum = encoded_datum(cv2.imencode("." + form.encoded, image)[1].tobytes(), label)
    return Made(datum.SerializeToString(), image.shape)


def _suffix(file: Path) -> str:
    suffix = file.suffix.lower().removeprefix(".")
    return "jpg" if suffix == "jpeg" else suffix


def make_all(entries: Sequence[Entry], form: Format, jobs: int) -> Iterator[Made]:
    """Yield what ``make`` returns for each entry, in order. With ``jobs`` > 1 that many processes do the work.

    At most a few chunks for each process are under way, so a slow reader of the results does not fill the memory.
    Raises ProgramError if a process dies.
    """
    cv2.setNumThreads(1)  # the processes are the parallelism; also, threads do not survive a fork
    if jobs == 1:
        for entry in entries:
            yield make(entry.file, entry.label, form)
        return
    slots = 3 * jobs
    shared = mmap.mmap(-1, slots * SLOT)
    executor = ProcessPoolExecutor(
        jobs, multiprocessing.get_context("fork"), initializer=_start_worker, initargs=(shared,)
    )
    pending: deque[tuple[int, Future[list[_Sent]]]] = deque()
    free = deque(range(slots))
    starts = iter(range(0, len(entries), CHUNK))
    try:
        while True:
            for start in islice(starts, len(free)):
                slot = free.popleft()
                pending.append((slot, executor.submit(_make_chunk, entries[start : start + CHUNK], form, slot)))
            if not pending:
                return
            slot, future = pending.popleft()
            for made, place in future.result():
                yield made if place is None else replace(made, datum=shared[place])
            free.append(slot)
    except BrokenProcessPool as error:
        raise ProgramError("a decoding process died (out of memory?); try again with fewer --jobs") from error
    finally:
        executor.shutdown(cancel_futures=True)
        shared.close()


_Sent = tuple[Made, slice | None]
"""What a process sends back: the Datum lies in the shared memory at the slice or, without room there, in Made."""

_shared: mmap.mmap


def _start_worker(shared: mmap.mmap) -> None:
    """Keep the shared memory at hand, and leave Ctrl-C to the parent, which ends the processes."""
    global _shared
    _shared = shared
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _make_chunk(entries: Sequence[Entry], form: Format, slot: int) -> list[_Sent]:
    """Make a chunk's Datums and lay them into the slot, one behind the other."""
    sent: list[_Sent] = []
    start, end = slot * SLOT, (slot + 1) * SLOT
    for entry in entries:
        made = make(entry.file, entry.label, form)
        place = slice(start, start + len(made.datum))
        if place.stop > end:
            sent.append((made, None))
            continue
        _shared[place] = made.datum
        start = place.stop
        sent.append((replace(made, datum=b""), place))
    return sent
