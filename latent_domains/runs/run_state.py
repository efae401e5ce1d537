"""The state of a run folder, for tables, reports and tools.watch."""

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum

from latent_domains.common.files import expect_file, json_text, write_text
from latent_domains.common.program import ProgramError
from latent_domains.runs.record import Failure
from latent_domains.runs.run_folder import RunFolder
from latent_domains.runs.sessions import FINISHED, last_session, now


class State(StrEnum):
    """States of a run. Only a run whose folder is locked by a living process is running."""

    WRITTEN = "written"
    RUNNING = "running"
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    FINISHED = "finished"


@dataclass(frozen=True)
class RunState:
    """A run's state, the iterations in its log or snapshots, and a note (may be empty).

    ``note`` is what a run does, why it failed, or from where it continues.
    """

    state: State
    iteration: int
    iterations: int
    note: str

    def __str__(self) -> str:
        text = str(self.state)
        if self.state != State.FINISHED:
            text += f" at iteration {self.iteration} of {self.iterations}" if self.iteration else ""
        return text + (f": {self.note}" if self.note else "")


def state_of(folder: RunFolder) -> RunState:
    """The state of a run folder, as its lock and its files tell it.

    A run is interrupted if its process was killed or its machine failed: its lock is free.
    """
    locked = folder.is_locked()  # first: a run that ends meanwhile has written its record or its failure before
    iterations = folder.experiment.iterations

    def state(state: State, iteration: int, note: str = "") -> RunState:
        return RunState(state, iteration, iterations, note)

    if folder.record.exists():
        try:
            folder.read_record()
        except ProgramError as error:
            return state(State.FAILED, iterations, str(error))
        return state(State.FINISHED, iterations)
    reached = last_iteration(folder)
    if locked:
        return state(State.RUNNING, reached, _doing(folder))
    try:
        failure = folder.read_failure()
    except ProgramError as error:
        return state(State.FAILED, reached, str(error))
    if failure:
        return state(State.FAILED, reached, failure.reason)
    snapshot = folder.latest_snapshot()
    if snapshot is None and not folder.log.exists():
        return state(State.WRITTEN, 0)
    start = snapshot.iteration if snapshot else 0
    reached = max(reached, start)
    if start >= iterations:
        return state(State.INTERRUPTED, iterations, "trained, not yet evaluated")
    return state(State.INTERRUPTED, reached, f"goes on from {start}" if start else "begins anew: no snapshot yet")


def _doing(folder: RunFolder) -> str:
    """What the program that holds the lock is doing."""
    session = last_session(folder)
    if session and session.ended is None:
        return ""
    return "evaluating" if session and session.ended == FINISHED else "waiting for its turn"


def last_iteration(folder: RunFolder) -> int:
    """The last iteration that the log tells of in the last session; where that one began if it came no further."""
    expect_file(folder.log, "caffe's log", missing_ok=True)
    with suppress(FileNotFoundError), folder.log.open("rb") as log:
        log.seek(0, 2)
        log.seek(max(0, log.tell() - _TAIL))
        text = log.read()
        if found := _REACHED.findall(text, max(0, text.rfind(_LOADING))):
            return int(found[-1])
    session = last_session(folder)
    return session.from_iteration if session else 0


_TAIL = 65536
"""Bytes at the log's end in which its last iteration is looked for: many times what one display takes."""

_LOADING = b"] Initializing solver from parameters"
"""Caffe's first line: earlier lines belong to other sessions."""

_REACHED = re.compile(rb"\] (?:Iteration |Snapshotting solver state .*_iter_)(\d+)")


class Interrupted(ProgramError):
    """A run was stopped from outside. This is no failure: the run can continue."""


@contextmanager
def recording_failure(folder: RunFolder, step: str) -> Iterator[None]:
    """Record in the folder why the block failed, at which ``step``, and raise the error again.

    Where the disk is full, stderr alone says why.
    """
    try:
        yield
    except Interrupted:
        raise
    except Exception as error:
        reason = str(error) if isinstance(error, ProgramError | OSError) else f"{type(error).__name__}: {error}"
        reason = reason.encode(errors="backslashreplace").decode()  # a path may hold bytes that no JSON can
        failure = Failure(reason=reason, step=step, iteration=last_iteration(folder), time=now())
        with suppress(OSError):
            write_text(folder.failure, json_text(failure.to_json()))
        raise
