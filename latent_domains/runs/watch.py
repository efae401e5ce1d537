"""Show runs in a terminal, a line each: state, iteration, speed, time left, loss and accuracy. Change nothing."""

import shutil
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path

from latent_domains.common.caffe_log import History, Measurement, history
from latent_domains.common.program import ProgramError
from latent_domains.runs.run_folder import RunFolder, find_runs
from latent_domains.runs.run_state import State, state_of
from latent_domains.runs.sessions import last_session

RECENT = 30
"""Displays of the loss over which speed is measured."""

SILENT = 120.0
"""Seconds without a new line in the log after which a running run is called silent."""

_ORDER = [State.RUNNING, State.FAILED, State.INTERRUPTED, State.FINISHED, State.WRITTEN, None]
"""Which runs come first where not all fit the screen; None is a folder that is not there yet."""


@dataclass(frozen=True)
class View:
    """A run as it is now. Without a terminal a line is printed when ``news`` changes."""

    path: Path
    state: State | None
    line: str
    news: tuple[object, ...] = ()


def view(path: Path) -> View:
    """Look at a run folder. Raises ProgramError if it is damaged."""
    folder = RunFolder.load(path)
    found = state_of(folder)
    log = _history(folder)
    words = [str(found.state)]
    if found.state is not State.WRITTEN:
        words.append(f"{found.iteration}/{found.iterations}")
    if found.state is State.RUNNING:
        words += _progress(folder, log, found.iterations - found.iteration)
    if (losses := log.measurements.get(("train", "loss"))) and found.state is not State.FINISHED:
        words.append(f"loss {losses[max(losses)].value:.4g}")
    accuracies = _accuracies(folder, log, finished=found.state is State.FINISHED)
    words += [f"{target} {100 * accuracy:.1f} %" for target, accuracy in accuracies.items()]
    if found.note:
        words.append(found.note)
    return View(path, found.state, f"{path.resolve().name}: {'  '.join(words)}", (found.state, accuracies))


def _history(folder: RunFolder) -> History:
    """What the log holds so far: parsed again only once it has changed."""
    folder.check_log()
    if not folder.log.exists():
        return History()
    status = folder.log.stat()
    return _history_as_of(folder.log, status.st_ino, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=256)
def _history_as_of(log: Path, *_version: int) -> History:
    with log.open(errors="replace") as lines:
        return history(lines)


def _progress(folder: RunFolder, log: History, iterations_left: int) -> list[str]:
    """Speed of the session under way and the time that is left; how long the log has been silent, if that is long."""
    session = last_session(folder)
    began = datetime.fromisoformat(session.started).timestamp() if session else 0.0
    losses: list[Measurement] = list(log.measurements.get(("train", "loss"), {}).values())[-RECENT:]
    points = [(loss.time, loss.iteration) for loss in losses if loss.time is not None and loss.time >= began]
    words = []
    if len(points) > 1 and points[-1][0] > points[0][0]:
        speed = (points[-1][1] - points[0][1]) / (points[-1][0] - points[0][0])
        if speed > 0:
            words.append(f"{speed:.3g} it/s  {timedelta(seconds=round(iterations_left / speed))} left")
    silent = time.time() - folder.log.stat().st_mtime if folder.log.exists() else 0.0
    return [*words, f"silent for {timedelta(seconds=round(silent))}"] if silent > SILENT else words


def _accuracies(folder: RunFolder, log: History, *, finished: bool) -> dict[str, float]:
    """The last accuracy on each target: of a finished run the record's, which is that of the last snapshot."""
    if finished:
        return {target: found.accuracy for target, found in folder.read_record().targets.items()}
    names = {target: folder.experiment.accuracy_name(target) for target in folder.experiment.tests.values()}
    measured = {target: log.measurements.get(("test", name)) for target, name in names.items()}
    return {target: values[max(values)].value for target, values in measured.items() if values}


def view_runs(paths: Sequence[Path], *, missing_ok: bool) -> list[View]:
    """View all runs below ``paths``. Raises ProgramError for a path without runs, unless ``missing_ok``."""
    views = []
    for path in paths:
        try:
            runs = find_runs(path)
        except ProgramError:
            if not missing_ok:
                raise
            views.append(View(path, None, f"{path}: not there yet"))
        else:
            views += [view(run) for run in runs]
    return views


def screen(views: Sequence[View], width: int, height: int) -> list[str]:
    """The lines that fit a terminal, running runs first where there are too many."""
    if len(views) > height:
        views = sorted(views, key=lambda view: _ORDER.index(view.state))
        counts = Counter(str(view.state or "not there yet") for view in views)
        total = f"{len(views)} runs: " + ", ".join(f"{count} {state}" for state, count in counts.items())
        lines = [*(view.line for view in views[: height - 1]), total]
    else:
        lines = [view.line for view in views]
    return [line if len(line) <= width else line[: width - 1] + "…" for line in lines]


def watch(paths: Sequence[Path], *, once: bool, interval: float) -> int:
    """Show the runs until they have ended, or ``once``. Returns 1 if one failed, else 0."""
    live = sys.stdout.isatty() and not once
    drawn, printed = 0, None
    while True:
        views = view_runs(paths, missing_ok=not once)
        if live:
            size = shutil.get_terminal_size()
            lines = screen(views, size.columns - 1, max(2, size.lines - 1))
            print((f"\x1b[{drawn}F\x1b[J" if drawn else "") + "\n".join(lines), flush=True)
            drawn = len(lines)
        elif (news := [(view.path, view.news) for view in views]) != printed:
            print(*([""] if printed else []), *(view.line for view in views), sep="\n", flush=True)
            printed = news
        if once or all(view.state in (State.FINISHED, State.FAILED) for view in views):
            return int(any(view.state is State.FAILED for view in views))
        time.sleep(interval)
