"""The sessions in which a run was trained: when, by which commit, how far, and how each ended (RUN/training.json).

A session is recorded when it begins. A killed session cannot record its end, so the next one does.
"""

from datetime import UTC, datetime
from typing import Any

from latent_domains.common.files import json_text, write_text
from latent_domains.common.program import ProgramError
from latent_domains.common.versions import commit
from latent_domains.runs.record import Session, Training
from latent_domains.runs.run_folder import RunFolder

FINISHED, STOPPED, FAILED, KILLED = "finished", "stopped", "failed", "killed"
"""How a session ends: at the last iteration, by Ctrl-C or a signal, by an error, or by SIGKILL."""


def begin_session(folder: RunFolder, iteration: int, how: dict[str, Any]) -> None:
    """Note that training goes on from ``iteration``; ``how`` has threads, mode and the like of :class:`Training`."""
    before = folder.read_training() or Training(seconds=0.0)
    session = Session(
        commit=commit(),
        started=now(),
        finished=None,
        seconds=None,
        from_iteration=iteration,
        to_iteration=None,
        ended=None,
        differs=_differences(before, how) if iteration else None,
    )
    _write(folder, Training(seconds=before.seconds, **how, sessions=[*before.sessions, session]))


def _differences(before: Training, how: dict[str, Any]) -> str | None:
    """What differs from the training ``before`` and changes sums or random numbers."""
    were = {key: getattr(before, key) for key in ("threads", "processes", "solver_mode")}
    changed = [f"{key} {were[key]} before" for key in were if were[key] not in (None, how.get(key))]
    return ", ".join(changed) or None


def end_session(folder: RunFolder, ended: str, iteration: int, seconds: float) -> None:
    """Note how the session that was begun last ended, at which iteration, and how long it took."""
    _end(folder, ended, iteration, now(), seconds)


def end_killed_session(folder: RunFolder, iteration: int) -> None:
    """End a session that did not end itself, when the log was last written to; ``iteration`` is the log's last.

    Call it with the folder's lock held: otherwise the session may belong to a running process.
    """
    session = last_session(folder)
    if session is None or session.ended:
        return
    started = datetime.fromisoformat(session.started)
    written = datetime.fromtimestamp(folder.log.stat().st_mtime, UTC) if folder.log.exists() else started
    last = max(started, written)
    _end(folder, KILLED, iteration, last.isoformat(timespec="seconds"), (last - started).total_seconds())


def _end(folder: RunFolder, ended: str, iteration: int, finished: str, seconds: float) -> None:
    """Complete the last session, and add its time to the total."""
    training = folder.read_training()
    end = {"finished": finished, "seconds": seconds, "to_iteration": iteration, "ended": ended}
    *before, last = training.sessions
    sessions = [*before, last.model_copy(update=end)]
    _write(folder, training.model_copy(update={"seconds": training.seconds + seconds, "sessions": sessions}))


def last_session(folder: RunFolder) -> Session | None:
    """The session that was begun last; None if there was none, or its note is damaged: the next training reports it."""
    try:
        training = folder.read_training()
    except ProgramError:
        return None
    return training.sessions[-1] if training and training.sessions else None


def now() -> str:
    """The time in UTC, as records have it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _write(folder: RunFolder, training: Training) -> None:
    write_text(folder.training, json_text(training.to_json()))
