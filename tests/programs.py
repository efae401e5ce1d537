"""Programs of the project, started as a user starts them or, faster, within the test's own process."""

import contextlib
import importlib
import io
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import psutil

from latent_domains.common.program import ROOT, exit_code


def hear_signals() -> None:
    """Hear SIGINT and SIGHUP, and so let every program that is started hear them.

    A shell that starts something in the background has it ignore SIGINT, and nohup SIGHUP.
    """
    for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)


@dataclass(frozen=True)
class Done:
    """How a program ended and what it said."""

    returncode: int
    stdout: str
    stderr: str


def program(name: str, *arguments: object) -> Done:
    """Do what ``python -m tools.NAME`` does, in this process."""
    module = importlib.import_module(f"tools.{name}")
    out, err = io.StringIO(), io.StringIO()
    argv = [f"tools/{name}.py", *map(str, arguments)]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), mock.patch.object(sys, "argv", argv):
        try:
            code = exit_code(module.main)
        except SystemExit as ending:  # of argparse
            code = int(ending.code or 0)
    return Done(code, out.getvalue(), err.getvalue())


def child(
    name: str, *arguments: object, env: dict[str, str] | None = None, before: Callable[[], None] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run ``python -m tools.NAME`` to its end; ``before`` is called in the child first."""
    return subprocess.run(
        [sys.executable, "-m", f"tools.{name}", *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, **(env or {})},
        preexec_fn=before,
        check=False,
    )


def files_up_to(size: int) -> Callable[[], None]:
    """What to call ``before`` a child: none of its files can have more bytes, as if the disk were full."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def interrupt(
    name: str, *arguments: object, at: str, whole_group: bool, with_signal: signal.Signals = signal.SIGINT
) -> tuple[int, str]:
    """Run ``python -m tools.NAME``, press Ctrl-C once ``at`` is on stderr; return exit code and stderr.

    A terminal interrupts the ``whole_group`` of processes, ``kill`` the first one alone. No process may be left.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", f"tools.{name}", *map(str, arguments)],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stderr is not None
    seen = b""
    try:
        while at.encode() not in seen:
            byte = process.stderr.read1(4096)
            assert byte, f"ended before {at!r} was seen: {seen.decode()}"
            seen += byte
        (os.killpg if whole_group else os.kill)(process.pid, with_signal)
        rest = process.communicate(timeout=300)[1]  # long, for a busy machine
    finally:
        process.kill()
    deadline = time.monotonic() + 60  # the kernel ends and removes processes in its own time
    while left := group_members(process.pid):
        assert time.monotonic() < deadline, f"processes left behind: {left}"
        time.sleep(0.02)
    return process.returncode, (seen + rest).decode()


def wait_until(condition: Callable[[], object], what: str = "it", *, seconds: float = 60, every: float = 0.01) -> None:
    """Wait for what another process does; look ``every`` so many seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come"
        time.sleep(every)


def replacing(arguments: Sequence[object], options: Sequence[object]) -> list[object]:
    """``arguments`` of a program, with ``options`` and their values in place of the same ones: each is given once."""
    kept = list(arguments)
    for option in options:
        if str(option).startswith("--") and option in kept:
            place = kept.index(option)
            del kept[place : place + 2]
    return [*kept, *options]


def names(folder: Path) -> list[str]:
    """Return the sorted names of everything in a folder, hidden files too."""
    return sorted(path.name for path in folder.iterdir())


def kill_all(pid: int) -> None:
    """End a process and all that it started, at once and without a word, as a power cut does."""
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        for one in (process, *process.children(recursive=True)):
            one.kill()


def group_members(group: int) -> list[int]:
    """Return the ids of the living processes of a process group."""
    members = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # ended meanwhile
            continue
        if int(fields[2]) == group and fields[0] != "Z":
            members.append(int(stat.parent.name))
    return members
