"""The lock of a folder: only one process trains or replaces a run, or adapts in its folder."""

import fcntl
import os
import platform
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from latent_domains.common.files import expect_no_link
from latent_domains.common.program import ProgramError

# The lock belongs to the open file, not to the process, which may have the file open twice.
_FLOCK = "hhqqi0q"
_WHOLE_FILE = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)

LOCK = "lock"
"""The name of a file that says who had the lock last. (Network file systems cannot lock a folder.)"""


def _file(folder: Path) -> Path:
    return folder / LOCK


@cache
def _say_unlocked(folder: Path, error: str) -> None:
    said = f"note: {folder}: not locked, as its file system has no locks ({error}): do not train it twice at a time"
    print(said, file=sys.stderr)


@contextmanager
def locked(folder: Path, *, wait: bool = False) -> Iterator[None]:
    """Keep other processes from training or replacing a run folder, or from running adapt in the same OUT.

    If another process has the lock, ``wait`` for its end, or refuse and name the process. Refuses a folder that was
    replaced during the wait.
    """
    this_process = f"process {os.getpid()} on {platform.node()}"
    file = _file(folder)
    expect_no_link(file)
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        try:
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _WHOLE_FILE)
        except (BlockingIOError, PermissionError):
            owner = os.pread(descriptor, 200, 0).decode(errors="replace").strip() or "another process"
            if owner == this_process:
                raise ProgramError(f"{folder}: it is being trained already, or was named twice") from None
            if not wait:
                raise ProgramError(f"{folder}: it is in use by {owner}: wait until that ends") from None
            print(f"{folder}: waiting for {owner}, which uses it", file=sys.stderr, flush=True)
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLKW, _WHOLE_FILE)
        except OSError as error:  # a file system without locks
            _say_unlocked(folder, error.strerror)
        if not file.exists() or not os.path.samestat(os.fstat(descriptor), file.stat()):
            raise ProgramError(f"{folder}: another process replaced it meanwhile: call it again")
        with suppress(OSError):  # a full disk
            os.truncate(descriptor, 0)
            os.pwrite(descriptor, f"{this_process}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def check_unlocked(folder: Path) -> None:
    """Raise ProgramError if a process trains the folder: for use before any advice to replace it."""
    if _file(folder).exists():
        with locked(folder):
            pass


def is_locked(folder: Path) -> bool:
    """Say whether a process, on this machine or on another that shares the file system, has the folder's lock.

    It takes no lock itself, so it does not disturb a training that begins. False if the file system has no locks.
    """
    try:
        descriptor = os.open(_file(folder), os.O_RDONLY | os.O_NONBLOCK)  # a FIFO would have it wait
    except FileNotFoundError:
        return False
    try:
        kind, *_ = struct.unpack(_FLOCK, fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _WHOLE_FILE))
        return kind != fcntl.F_UNLCK
    except OSError:
        return False
    finally:
        os.close(descriptor)
