"""What may happen to a process: each condition runs a case's program under it."""

import os
import signal
from collections.abc import Callable

import psutil

from tests.faults.stage import Stage, ends_within, kill_all
from tests.programs import files_up_to

Condition = Callable[[Stage], str]
"""Runs the program, and returns in words what it did."""


def _full_disk(stage: Stage) -> str:
    """On the disk that the case was given; where there can be none, with a limit of the files' size."""
    if stage.room is None:
        return _file_size_limit(stage)
    stage.end(stage.start())
    stage.larger_disk()
    return f"room for {stage.room >> 10} KiB"


def _file_size_limit(stage: Stage) -> str:
    size = stage.rng.choice((0, 1, stage.rng.randrange(1, 1 << 12), stage.rng.randrange(1, max(2, stage.growth))))
    stage.end(stage.start(before=files_up_to(size)))
    return f"no file above {size} bytes"


def _closed_pipe(stage: Stage) -> str:
    reading, writing = os.pipe()
    os.close(reading)
    process = stage.start(stdout=writing)
    os.close(writing)
    stage.end(process)
    return "nobody reads its stdout"


def _signals(*numbers: signal.Signals) -> Condition:
    def condition(stage: Stage) -> str:
        process, moment = stage.start_for_a_while()
        for i, number in enumerate(numbers):
            if i:
                ends_within(stage.rng.uniform(0, 0.1), process)
            stage.send(process, number)
        stage.end(process)
        return f"{', '.join(number.name for number in numbers)} after {moment:.2f} s"

    return condition


def _all_killed(stage: Stage) -> str:
    process, moment = stage.start_for_a_while()
    stage.sent.add(signal.SIGKILL)
    kill_all(process.pid)
    stage.end(process)
    return f"killed with all children after {moment:.2f} s"


def _child_killed(stage: Stage) -> str:
    """Kill the first child that is there from some moment on, if any is."""
    process, moment = stage.start_for_a_while()
    name = "none"
    while name == "none" and not ends_within(0.02, process):
        if children := psutil.Process(process.pid).children():
            name = children[0].name()
            children[0].kill()
    stage.end(process)
    return f"its child killed from {moment:.2f} s on: {name}"


def _two_at_once(stage: Stage) -> str:
    first = stage.start()
    delay = stage.rng.choice((0.0, stage.moment()))
    ends_within(delay, first)
    second = stage.start()
    stage.end(first)
    stage.end(second)
    return f"the same command again after {delay:.2f} s"


def _read_only(stage: Stage) -> str:
    folders = [stage.out, *(path for path in stage.out.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    stage.end(stage.start())
    for folder in folders:
        folder.chmod(0o755)
    return "its folder is read-only"


CONDITIONS: dict[str, Condition] = {
    "full disk": _full_disk,
    "limit of file size": _file_size_limit,
    "closed pipe": _closed_pipe,
    "read-only folder": _read_only,
    "SIGINT": _signals(signal.SIGINT),
    "SIGTERM": _signals(signal.SIGTERM),
    "SIGHUP": _signals(signal.SIGHUP),
    "SIGINT twice": _signals(signal.SIGINT, signal.SIGINT),
    "SIGTERM twice": _signals(signal.SIGTERM, signal.SIGTERM),
    "killed": _signals(signal.SIGKILL),
    "killed with all children": _all_killed,
    "a child killed": _child_killed,
    "two at once": _two_at_once,
}
"""The files are as they should be: what stood stays, what was asked for is there whole or not at all, and the same
command then makes it."""
