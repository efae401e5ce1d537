"""A folder with valid inputs in which a program runs, in processes that are watched, limited and without privileges."""

import ctypes
import importlib
import os
import resource
import select
import shutil
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import psutil

from latent_domains.common.program import exit_code
from tests.faults.programs import Program

ADDRESSES = 16 << 30
"""Bytes of address space of a process: what asks for more gets none, and the machine is left alone."""

_LIBC = ctypes.CDLL(None, use_errno=True)
_SUBREAPER, _NO_NEW_PRIVILEGES = 36, 38
_NEW_MOUNTS, _NEW_USER, _REMOUNT = 0x20000, 0x10000000, 32
_STARTED = 0.3
"""Seconds after which Python itself has started: whatever interrupts it before that, no program of ours hears."""
_IMPORTS = 3.0
"""Seconds that a new process of Python needs for its imports, about."""


@dataclass(frozen=True)
class Ended:
    """How a process ended, and what it said."""

    code: int
    """Exit code; less than 0: the signal that ended it."""
    stdout: str
    stderr: str
    megabytes: int
    """Of memory at most, with those of its children that it waited for."""
    hung: bool = False
    left: tuple[str, ...] = ()
    """Processes that it left running."""


@dataclass
class Stage:
    """``seconds`` and ``growth``: what the program needs of time and of bytes in ``out`` when nothing happens."""

    folder: Path
    program: Program
    rng: Random
    real: bool
    seconds: float = 0.0
    growth: int = 0
    ended: list[Ended] = field(default_factory=list)
    sent: set[int] = field(default_factory=set)
    """Signals that were sent to the program: it may end by these."""
    room: int | None = None
    """Bytes that are free on the disk of ``out``, if it has one of its own."""
    _said: dict[int, list["_Reader"]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _LIBC.prctl(_SUBREAPER, 1, 0, 0, 0)  # what a program leaves running becomes our child

    @property
    def out(self) -> Path:
        return self.folder / "out"

    def place(self, base: Path, *, small_disk: bool = False) -> None:
        """Copy the inputs; files that name others by their paths name the copies.

        ``small_disk``: ``out`` is a disk that has not room for all, if this system lets anybody mount one.
        """
        self.out.mkdir(parents=True, exist_ok=True)
        places = {}
        for entry in self.program.inputs:
            name, _, place = entry.partition(">")
            places[base / name] = self.folder / (place or name)
        if small_disk:
            held = sum(_pages(source) for source, target in places.items() if target.is_relative_to(self.out))
            room = max(self.rng.randrange(max(1, self.growth)), self.program.room)
            self.room = room if self._mount_disk(held + room) else None
        for source, target in places.items():
            target.parent.mkdir(parents=True, exist_ok=True)
            (shutil.copytree if source.is_dir() else shutil.copy)(source, target)
            for file in [target, *target.rglob("*")]:
                if file.suffix in (".prototxt", ".json") and file.is_file():
                    text = file.read_text().replace(f"{source}/", f"{target}/")
                    file.write_text(text.replace(f"{base}/", f"{self.folder}/"))

    def moment(self) -> float:
        """A time while the program runs, or shortly after that, in seconds from its start."""
        least, more = (_STARTED, _IMPORTS) if self.real else (0.0, 0.0)
        return self.rng.uniform(least, 1.1 * (self.seconds + more))

    def start_for_a_while(self) -> tuple[int, float]:
        """Start the program and let it run for a random time; return its process id and these seconds."""
        moment, begun = self.moment(), time.monotonic()
        pid = self.start()
        if self.program.listens:
            while not (self.folder / self.program.listens).exists() and not ends_within(0.02, pid):
                pass
            begun = time.monotonic() - min(moment, _STARTED + _IMPORTS)
        ends_within(begun + moment - time.monotonic(), pid)
        return pid, moment

    def start(self, *more: str, before: Callable[[], object] = lambda: None, stdout: int | None = None) -> int:
        """Start the program, and return its process id."""
        pipes = [os.pipe(), os.pipe()]  # no files: their size may be limited
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            written = [writing for _, writing in pipes]
            _become(
                self.program, more, self.folder, written if stdout is None else [stdout, written[1]], before, self.real
            )
        self._said[pid] = []
        for reading, writing in pipes:
            os.close(writing)
            self._said[pid].append(_Reader(reading))
        return pid

    def end(self, pid: int) -> Ended:
        """Wait for a process, and for what it left running; kill it if it takes too long."""
        if hung := not ends_within(self.program.seconds, pid):
            kill_all(pid)
        _, status, usage = os.wait4(pid, 0)
        others = set(self._said) - {pid}
        left = [] if hung else [child for child in _children() if child.pid not in others]
        _, left = psutil.wait_procs(left, timeout=10)  # the kernel ends them in its own time
        left_names = tuple(" ".join(child.cmdline()[:6]) for child in left)
        for child in left:
            kill_all(child.pid)
        said = [reader.text() for reader in self._said.pop(pid)]
        ended = Ended(os.waitstatus_to_exitcode(status), *said, usage.ru_maxrss >> 10, hung, left_names)
        self.ended.append(ended)
        return ended

    def send(self, pid: int, number: signal.Signals) -> None:
        """Send a signal to the program, unless it has ended."""
        self.sent.add(number)
        os.kill(pid, number)  # it was not waited for: its id is still its own

    def _mount_disk(self, size: int) -> bool:
        """Make ``out`` a disk of so many bytes, in a name space of this process and its children."""
        user, group = os.getuid(), os.getgid()
        if _LIBC.unshare(_NEW_USER | _NEW_MOUNTS):
            return False
        try:
            Path("/proc/self/setgroups").write_text("deny")
            Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
            Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
        except OSError:
            return False
        return self._mount(0, size)

    def larger_disk(self) -> None:
        """Let the disk have room again."""
        self._mount(_REMOUNT, 1 << 30)

    def _mount(self, flags: int, size: int) -> bool:
        return not _LIBC.mount(b"tmpfs", os.fsencode(self.out), b"tmpfs", flags, b"size=%d" % max(4096, size))


class _Reader:
    """Reads a pipe to its end in a thread, so that whoever writes never waits."""

    def __init__(self, descriptor: int) -> None:
        self._read = b""
        self._thread = threading.Thread(target=self._fill, args=(descriptor,), daemon=True)
        self._thread.start()

    def _fill(self, descriptor: int) -> None:
        with os.fdopen(descriptor, "rb") as pipe:
            self._read = pipe.read()

    def text(self) -> str:
        self._thread.join()
        return self._read.decode(errors="replace")


def _become(
    program: Program,
    more: tuple[str, ...],
    folder: Path,
    streams: list[int],
    before: Callable[[], object],
    real: bool,
) -> None:
    """Be the program, and end."""
    code = 70
    try:
        os.setsid()
        os.chdir(folder)
        for number, descriptor in enumerate([os.open(os.devnull, os.O_RDONLY), *streams]):
            os.dup2(descriptor, number)
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", 1, errors="backslashreplace", closefd=False)  # noqa: SIM115
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # an interpreter's own, once it imports tools
            signal.signal(number, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
        _LIBC.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        # Root without capabilities: it may not read what others' bits forbid, nor fill what is kept for root.
        _LIBC.capset((ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)())
        before()
        if real:
            os.execv(sys.executable, program.command(*more))  # noqa: S606
        sys.argv = [program.module, *program.argv, *more]
        module = importlib.import_module(program.module)
        if not hasattr(module, "main"):  # a package
            module = importlib.import_module(f"{program.module}.__main__")
        code = exit_code(module.main)
    except SystemExit as ending:
        code = ending.code if isinstance(ending.code, int) else 0
    except BaseException:
        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
        except OSError:  # as Python's own end does
            traceback.print_exc()
            code = 120
        os._exit(code)


def _pages(path: Path) -> int:
    """Bytes that a file or a folder takes in memory, where the disk is."""
    files = [path, *path.rglob("*")]
    return sum((file.stat().st_size // 4096 + 2) * 4096 if file.is_file() else 4096 for file in files)


def _children() -> list[psutil.Process]:
    living = psutil.Process().children(recursive=True)
    return [child for child in living if child.status() != psutil.STATUS_ZOMBIE]


def kill_all(pid: int) -> None:
    """End a process and all that it started, at once and without a word, as a power cut does."""
    try:
        process = psutil.Process(pid)
        for one in (process, *process.children(recursive=True)):
            one.kill()
    except psutil.NoSuchProcess:
        pass


def ends_within(seconds: float, pid: int) -> bool:
    """Wait so long for the end of a child, which somebody has still to reap; say whether it has ended."""
    with os.fdopen(os.pidfd_open(pid)) as descriptor:
        return bool(select.select([descriptor], [], [], max(0.0, seconds))[0])
