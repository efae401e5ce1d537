"""Show runs in a terminal, a line each: state, iteration, speed, time left, loss and accuracy. Change nothing."""

import shutil
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from latent_domains.common.caffe_log import History, history
from latent_domains.common.program import ProgramError
from latent_domains.runs.run_folder import RunFolder, find_runs
from latent_domains.runs.run_state import State, last_session, state_of

RECENT = 30
"""Displays of the loss over which speed is measured."""

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
    words = [str(found.state)]
    if found.state is not State.WRITTEN:
        words.append(f"{found.iteration}/{found.iterations}")
    if found.state is State.FINISHED:  # the log's last test is one training pass later than the snapshot's
        accuracies = {target: on_target.accuracy for target, on_target in folder.read_record().targets.items()}
    else:
        log = history(folder.log_text().splitlines())
        if found.state is State.RUNNING:
            words += _speed(folder, log, found.iterations - found.iteration)
        if (loss := _last(log, "train", "loss")) is not None:
            words.append(f"loss {loss:.4g}")
        tested = {target: folder.experiment.accuracy_name(target) for target in folder.test_nets}
        last = {target: _last(log, "test", name) for target, name in tested.items()}
        accuracies = {target: accuracy for target, accuracy in last.items() if accuracy is not None}
    words += [f"{target} {100 * accuracy:.1f} %" for target, accuracy in accuracies.items()]
    if found.note:
        words.append(found.note)
    return View(path, found.state, f"{path.resolve().name}: {'  '.join(words)}", (found.state, accuracies))


def _last(log: History, phase: str, name: str) -> float | None:
    measured = log.measurements.get((phase, name))
    return measured[max(measured)].value if measured else None


def _speed(folder: RunFolder, log: History, iterations_left: int) -> list[str]:
    """Speed of the session under way and the time that is left; nothing as long as they are not known."""
    session = last_session(folder)
    began = datetime.fromisoformat(session.started).timestamp() if session else 0.0
    losses = list(log.measurements.get(("train", "loss"), {}).values())[-RECENT:]
    points = [(loss.time, loss.iteration) for loss in losses if loss.time is not None and loss.time >= began]
    if len(points) < 2 or points[-1][0] <= points[0][0] or points[-1][1] <= points[0][1]:
        return []
    speed = (points[-1][1] - points[0][1]) / (points[-1][0] - points[0][0])
    return [f"{speed:.3g} it/s", f"{timedelta(seconds=round(iterations_left / speed))} left"]


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
    lines = [view.line for view in views]
    if len(views) > height:
        views = sorted(views, key=lambda view: _ORDER.index(view.state))
        counts = Counter(str(view.state or "not there yet") for view in views)
        total = f"{len(views)} runs: " + ", ".join(f"{count} {state}" for state, count in counts.items())
        lines = [*(view.line for view in views[: height - 1]), total]
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
