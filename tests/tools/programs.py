"""Programs of the project, started as a user starts them."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tools.program import ROOT


def program(
    name: str, *arguments: object, env: dict[str, str] | None = None, before: Callable[[], None] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run ``python -m tools.NAME`` to its end; ``before`` is called in the child first."""
    return subprocess.run(
        [sys.executable, "-m", f"tools.{name}", *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **(env or {})},
        preexec_fn=before,
        check=False,
    )


def interrupt(name: str, *arguments: object, at: str, whole_group: bool) -> tuple[int, str]:
    """Run ``python -m tools.NAME``, press Ctrl-C once ``at`` is on stderr; return exit code and stderr.

    A terminal interrupts the ``whole_group`` of processes, ``kill`` the first one alone.
    """
    child = subprocess.Popen(
        [sys.executable, "-m", f"tools.{name}", *map(str, arguments)],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert child.stderr is not None
    seen = b""
    try:
        while at.encode() not in seen:
            byte = child.stderr.read1(4096)
            assert byte, f"ended before {at!r} was seen: {seen.decode()}"
            seen += byte
        (os.killpg if whole_group else os.kill)(child.pid, signal.SIGINT)
        rest = child.communicate(timeout=60)[1]
    finally:
        child.kill()
    assert not group_members(child.pid), "processes left behind"
    return child.returncode, (seen + rest).decode()


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
