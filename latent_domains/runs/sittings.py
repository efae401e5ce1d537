"""The sittings in which a run was trained: when, by which commit, how far, and how each ended (RUN/training.json).

A sitting is noted when it begins. One that was killed can note nothing more, so the next one ends it for it.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from latent_domains.common.files import json_text, write_text
from latent_domains.common.versions import commit
from latent_domains.runs.run_folder import RunFolder

FINISHED, STOPPED, FAILED, KILLED = "finished", "stopped", "failed", "killed"
"""How a sitting ends: at the last iteration, by Ctrl-C or a signal, by an error, or without a word."""


def begin_sitting(folder: RunFolder, iteration: int, values: dict[str, Any]) -> None:
    """Note that training goes on from ``iteration``; ``values`` says how (threads, mode, …)."""
    sittings = _sittings(folder)
    sittings.append(
        {
            "commit": commit(),
            "started": now(),
            "finished": None,
            "seconds": None,
            "from_iteration": iteration,
            "to_iteration": None,
            "ended": None,
        }
    )
    _write(folder, {"seconds": _seconds(folder), **values, "sittings": sittings})


def end_sitting(folder: RunFolder, ended: str, iteration: int, seconds: float) -> None:
    """Note how the sitting that was begun last ended, at which iteration, and how long it took."""
    _end(folder, ended, iteration, now(), seconds)


def end_killed_sitting(folder: RunFolder, iteration: int) -> None:
    """End a sitting that did not end itself, when the log was last written to; ``iteration`` is the log's last.

    To be called by who holds the folder's lock: the sitting is another process's if it is still under way.
    """
    sitting = open_sitting(folder)
    if sitting is None:
        return
    started = datetime.fromisoformat(sitting["started"])
    last = max(started, _changed(folder.log)) if folder.log.exists() else started
    _end(folder, KILLED, iteration, last.isoformat(timespec="seconds"), (last - started).total_seconds())


def _end(folder: RunFolder, ended: str, iteration: int, finished: str, seconds: float) -> None:
    """Complete the last sitting, and add its time to the whole."""
    training = folder.read_training()
    training["sittings"][-1] |= {"finished": finished, "seconds": seconds, "to_iteration": iteration, "ended": ended}
    _write(folder, {**training, "seconds": training["seconds"] + seconds})


def open_sitting(folder: RunFolder) -> dict[str, Any] | None:
    """The sitting that has begun and not ended: it is under way, or was killed."""
    sitting = last_sitting(folder)
    return sitting if sitting and sitting["ended"] is None else None


def last_sitting(folder: RunFolder) -> dict[str, Any] | None:
    """The sitting that was begun last; None if there was none, or the run is from before sittings were noted."""
    sittings = _sittings(folder)
    return sittings[-1] if sittings else None


def now() -> str:
    """The time in UTC, as records have it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _changed(file: Path) -> datetime:
    return datetime.fromtimestamp(file.stat().st_mtime, UTC)


def _sittings(folder: RunFolder) -> list[dict[str, Any]]:
    return (folder.read_training() or {}).get("sittings", [])


def _seconds(folder: RunFolder) -> float:
    return (folder.read_training() or {}).get("seconds", 0.0)


def _write(folder: RunFolder, values: dict[str, Any]) -> None:
    write_text(folder.training, json_text(values))
