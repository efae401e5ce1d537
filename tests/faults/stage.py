"""A folder with valid inputs in which a program runs, in processes that are watched, limited and without privileges."""

import ctypes
import os
import resource
import select
import shutil
import signal
import subprocess
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from random import Random

import psutil

from tests.faults.programs import Program

ADDRESSES = 16 << 30
"""Bytes of address space of a process: what asks for more gets none, and the machine is left alone."""

_LIBC = ctypes.CDLL(None, use_errno=True)
_SUBREAPER, _NO_NEW_PRIVILEGES = 36, 38
_NEW_MOUNTS, _NEW_USER, _REMOUNT = 0x20000, 0x10000000, 32
_STARTED = 0.3
"""Seconds after which Python itself has started: whatever interrupts it before that, no program of ours hears."""


def workers(number: int) -> ProcessPoolExecutor:
    """Processes in which cases may happen: what a program leaves running is theirs, and each may mount disks."""
    return ProcessPoolExecutor(number, get_context("spawn"), initializer=_prepare)


def _prepare() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is for who started the cases
    _LIBC.prctl(_SUBREAPER, 1, 0, 0, 0)
    user, group = os.getuid(), os.getgid()
    if not _LIBC.unshare(_NEW_USER | _NEW_MOUNTS):
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


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
    seconds: float = 0.0
    growth: int = 0
    ended: list[Ended] = field(default_factory=list)
    sent: set[int] = field(default_factory=set)
    """Signals that were sent to the program: it may end by these."""
    room: int | None = None
    """Bytes that are free on the disk of ``out``, if it has one of its own."""
    _running: list[int] = field(default_factory=list)

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
            room = self.rng.randrange(max(1, self.growth))
            self.room = room if self._mount(0, held + room) else None
        for source, target in places.items():
            target.parent.mkdir(parents=True, exist_ok=True)
            (shutil.copytree if source.is_dir() else shutil.copy)(source, target)
            for file in [target, *target.rglob("*")]:
                if file.suffix in (".prototxt", ".json") and file.is_file():
                    text = file.read_text().replace(f"{source}/", f"{target}/")
                    file.write_text(text.replace(f"{base}/", f"{self.folder}/"))

    def moment(self) -> float:
        """A time while the program runs, or shortly after that, in seconds from its start."""
        return self.rng.uniform(_STARTED, _STARTED + 1.1 * self.seconds)

    def start_for_a_while(self) -> tuple[subprocess.Popen[str], float]:
        """Start the program and let it run for a random time; return its process and these seconds."""
        moment, process = self.moment(), self.start()
        ends_within(moment, process)
        return process, moment

    def start(
        self, *more: str, before: Callable[[], object] = lambda: None, stdout: int = subprocess.PIPE
    ) -> subprocess.Popen[str]:
        """Start the program. It writes to pipes, not to files, whose size may be limited."""
        process = subprocess.Popen(
            self.program.command(*more),
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
            pipesize=1 << 20,  # it need not wait for a reader
            text=True,
            errors="replace",
            start_new_session=True,
            preexec_fn=lambda: (_limit(), before()),
        )
        self._running.append(process.pid)
        return process

    def end(self, process: subprocess.Popen[str]) -> Ended:
        """Wait for a process, and for what it left running; kill it if it takes too long."""
        if hung := not ends_within(self.program.seconds, process):
            kill_all(process.pid)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        self._running.remove(process.pid)
        left = [] if hung else [child for child in _children() if child.pid not in self._running]
        _, left = psutil.wait_procs(left, timeout=10)  # the kernel ends them in its own time
        left_names = tuple(" ".join(child.cmdline()[:6]) for child in left)
        for child in left:
            kill_all(child.pid)
        stdout, stderr = process.communicate()
        ended = Ended(process.returncode, stdout or "", stderr, usage.ru_maxrss >> 10, hung, left_names)
        self.ended.append(ended)
        return ended

    def send(self, process: subprocess.Popen[str], number: signal.Signals) -> None:
        """Send a signal to the program, unless it has ended."""
        self.sent.add(number)
        os.kill(process.pid, number)  # it was not waited for: its id is still its own

    def larger_disk(self) -> None:
        """Let the disk have room again."""
        self._mount(_REMOUNT, 1 << 30)

    def _mount(self, flags: int, size: int) -> bool:
        """Make ``out`` a disk of so many bytes, which this process and its children see."""
        return not _LIBC.mount(b"tmpfs", os.fsencode(self.out), b"tmpfs", flags, b"size=%d" % max(4096, size))


def _limit() -> None:
    """Limit the memory of this process, and take its privileges.

    Root without capabilities may not read what others' bits forbid, nor fill what is kept for root.
    """
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
    _LIBC.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    _LIBC.capset((ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)())
    signal.signal(signal.SIGINT, signal.SIG_DFL)


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


def ends_within(seconds: float, process: subprocess.Popen[str]) -> bool:
    """Wait so long for the end of a child, which somebody has still to reap; say whether it has ended."""
    with os.fdopen(os.pidfd_open(process.pid)) as descriptor:
        return bool(select.select([descriptor], [], [], max(0.0, seconds))[0])
