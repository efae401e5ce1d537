"""The state of a run folder, and the notes that training writes into it: sessions, and why it failed.

A session is a time in which a run was trained (RUN/training.json). It is recorded when it begins. A killed session
records no end, and its time is not in the total.
"""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from latent_domains.common.files import json_text, write_text
from latent_domains.common.program import ProgramError
from latent_domains.common.versions import commit
from latent_domains.runs.record import Failure, Session, Training
from latent_domains.runs.run_folder import RunFolder

_FINISHED, _STOPPED, _FAILED = "finished", "stopped", "failed"
"""How a session ends: at the last iteration, by Ctrl-C or a signal, or by an error."""

_LOADING = "] Initializing solver from parameters"
"""Caffe's first line in a session: lines before it belong to earlier sessions."""

_REACHED = re.compile(r"\] (?:Iteration |Snapshotting solver state .*_iter_)(\d+)")


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

    ``note`` says what a run does, why it failed, or from where it continues.
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
    """Return the state of a run folder, from its lock and its files.

    A run is interrupted if its process was killed or its machine failed: its lock is free.
    """
    locked = folder.is_locked()  # first: a run that ends after this has its record or failure on disk
    iterations = folder.experiment.recipe.iterations

    def state(state: State, iteration: int, note: str = "") -> RunState:
        return RunState(state, iteration, iterations, note)

    if folder.record_file.exists():
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
    if snapshot is None:
        return state(State.INTERRUPTED, reached, "begins anew: no snapshot yet")
    if snapshot.iteration >= iterations:
        return state(State.INTERRUPTED, iterations, "trained, not yet evaluated")
    return state(State.INTERRUPTED, reached, f"goes on from {snapshot.iteration}")


def _doing(folder: RunFolder) -> str:
    """Return what the program that has the lock is doing."""
    session = last_session(folder)
    if session and session.ended is None:
        return ""
    return "evaluating" if session and session.ended == _FINISHED else "waiting for its turn"


def last_iteration(folder: RunFolder) -> int:
    """Return the last iteration in the log of the last session, or that of the latest snapshot if this is later."""
    snapshot = folder.latest_snapshot()
    found = _REACHED.findall(folder.log_text().rpartition(_LOADING)[2])
    return max(int(found[-1]) if found else 0, snapshot.iteration if snapshot else 0)


class Interrupted(ProgramError):
    """A run was stopped from outside. This is not a failure: the run can continue."""


@contextmanager
def recording_failure(folder: RunFolder, step: str) -> Iterator[None]:
    """Record in the folder why the block failed, at which ``step``, and raise the error again.

    If the disk is full, the reason appears only on stderr.
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


@contextmanager
def recording_session(
    folder: RunFolder, iteration: int, how: dict[str, Any], is_stopping: Callable[[], bool]
) -> Iterator[None]:
    """Record that training continues from ``iteration`` and, at the block's end, how it ended.

    ``how`` has the fields of :class:`Training`: threads, mode and others. ``is_stopping`` says whether a signal ended
    the block.
    """
    before = folder.read_training() or Training(seconds=0.0)
    differs = _differences(before, how) if iteration else None
    session = Session(commit=commit(), started=now(), from_iteration=iteration, differs=differs)
    _write(folder, Training(seconds=before.seconds, **how, sessions=[*before.sessions, session]))
    began, ended = time.monotonic(), _FAILED
    try:
        yield
        ended = _STOPPED if is_stopping() else _FINISHED
    except Interrupted:
        ended = _STOPPED
        raise
    finally:
        reached = folder.experiment.recipe.iterations if ended == _FINISHED else last_iteration(folder)
        _end_session(folder, ended, reached, now(), time.monotonic() - began)


def _differences(before: Training, how: dict[str, Any]) -> str | None:
    """Describe changes since the training ``before`` that may change results: threads, mode, OpenBLAS's kernel, net."""
    were = {key: getattr(before, key) for key in ("threads", "openblas", "solver_mode")}
    changed = [f"{key} {were[key]} before" for key in were if were[key] not in (None, how.get(key))]
    files = how.get("files") or {}
    changed += [f"another {name} before" for name, one in (before.files or {}).items() if files.get(name) != one]
    return ", ".join(changed) or None


def _end_session(folder: RunFolder, ended: str, iteration: int, finished: str, seconds: float) -> None:
    """Complete the last session, and add its time to the total."""
    training = folder.read_training()
    if training is None:  # somebody removed the folder
        return
    end = {"finished": finished, "seconds": seconds, "to_iteration": iteration, "ended": ended}
    *before, last = training.sessions
    sessions = [*before, last.model_copy(update=end)]
    _write(folder, training.model_copy(update={"seconds": training.seconds + seconds, "sessions": sessions}))


def last_session(folder: RunFolder) -> Session | None:
    """Return the latest session; None if there was none, or if its note is damaged, which the next training reports."""
    try:
        training = folder.read_training()
    except ProgramError:
        return None
    return training.sessions[-1] if training and training.sessions else None


def now() -> str:
    """Return the time in UTC, in the format of records."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _write(folder: RunFolder, training: Training) -> None:
    write_text(folder.training, json_text(training.to_json()))
