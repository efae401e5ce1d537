"""Show runs in a terminal, one per line: state, iteration, speed, time left, loss and accuracy. Change nothing."""

import re
import shutil
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from latent_domains.common.caffe_process import curves
from latent_domains.common.program import ProgramError
from latent_domains.common.wording import harmless, one_line
from latent_domains.runs.run_folder import RunFolder, find_runs
from latent_domains.runs.run_state import State, state_of

_SPEED = re.compile(r"\] Iteration \d+ \((\d+(?:\.\d+)?) iter/s")
"""Caffe's speed since it last displayed the loss."""

_ORDER = [State.RUNNING, State.FAILED, State.INTERRUPTED, State.FINISHED, State.WRITTEN, None]
"""Which runs come first if they do not all fit the screen; None is a folder that does not exist yet."""


@dataclass(frozen=True)
class View:
    """A run as it is now. If there is no terminal, its line is printed when ``news`` changes."""

    path: Path
    state: State | None
    line: str
    news: tuple[object, ...] = ()


def view(path: Path) -> View:
    """Return the view of a run folder."""
    folder = RunFolder.load(path)
    found = state_of(folder)
    words = [str(found.state)]
    if found.state is not State.WRITTEN:
        words.append(f"{found.iteration}/{found.iterations}")
    if found.state is State.FINISHED:  # the log's last test is after one training pass more than the snapshot
        accuracies = {target: on_target.accuracy for target, on_target in folder.read_record().targets.items()}
    else:
        log = folder.log_text()
        if found.state is State.RUNNING and (speeds := _SPEED.findall(log)) and (speed := float(speeds[-1])) > 0:
            left = timedelta(seconds=round((found.iterations - found.iteration) / speed))
            words += [f"{speed:.3g} it/s", f"{left} left"]
        last = {key: curve[max(curve)] for key, curve in curves(log.splitlines()).items() if curve}
        if ("train", "loss") in last:
            words.append(f"loss {last['train', 'loss']:.4g}")
        tests = {target: ("test", folder.experiment.task.accuracy_name(target)) for target in folder.test_nets}
        accuracies = {target: last[key] for target, key in tests.items() if key in last}
    words += [f"{target} {100 * accuracy:.1f} %" for target, accuracy in accuracies.items()]
    if found.note:
        words.append(one_line(found.note))
    line = harmless(f"{path.resolve().name}: {'  '.join(words)}")
    return View(path, found.state, line, (found.state, accuracies))


def view_runs(paths: Sequence[Path], *, missing_ok: bool) -> list[View]:
    """View all runs below ``paths``. Refuses a path without runs, unless ``missing_ok``."""
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
    """Return the lines that fit a terminal; if there are too many, those of running runs come first."""
    lines = [view.line for view in views]
    if len(views) > height:
        views = sorted(views, key=lambda view: _ORDER.index(view.state))
        counts = Counter(str(view.state or "not there yet") for view in views)
        total = f"{len(views)} runs: " + ", ".join(f"{count} {state}" for state, count in counts.items())
        lines = [*(view.line for view in views[: height - 1]), total]
    return [line if len(line) <= width else line[: width - 1] + "…" for line in lines]


def watch(paths: Sequence[Path], *, once: bool, interval: float) -> int:
    """Show the runs until all have ended, or only ``once``. Returns 1 if one failed, else 0.

    ``interval`` is in seconds.
    """
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
