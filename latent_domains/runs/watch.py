"""Runs followed from outside, as text for a terminal: state, progress, losses, accuracy. The runs notice nothing."""

import os
import shutil
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

from latent_domains.common.caffe_log import History
from latent_domains.common.files import expect_file
from latent_domains.common.program import ProgramError
from latent_domains.runs.run_folder import RunFolder, find_runs
from latent_domains.runs.run_state import RunState, State, state_of
from latent_domains.runs.sessions import last_session

RECENT = 30
"""Displays of the loss over which speed is measured."""


class Follower:
    """A run folder, which may not be there yet, and what is known of it after each :meth:`look`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.folder: RunFolder | None = None
        self.state: RunState | None = None
        """None as long as the folder is not there."""
        self.history = History()
        self._description: tuple[int, int] | None = None
        self._log = _Tail(path / "train.log", self._begin_log)

    def look(self) -> None:
        """Read what is new. Raises ProgramError if the folder is damaged."""
        try:
            status = (self.path / "experiment.json").stat()
        except FileNotFoundError:
            self.folder = self.state = self._description = None
            return
        if (status.st_ino, status.st_mtime_ns) != self._description:  # new, or written again
            self.folder = RunFolder.load(self.path)
            self._description = (status.st_ino, status.st_mtime_ns)
        self.state = state_of(self.folder)
        for line in self._log.lines():
            self.history.feed(line)

    def _begin_log(self) -> None:
        self.history = History()

    def speed(self) -> float | None:
        """Iterations a second of a running run in this session, as of late; None while it is not known."""
        if self.state is None or self.state.state is not State.RUNNING:
            return None
        losses = list(self.history.measurements.get(("train", "loss"), {}).values())[-RECENT:]
        try:
            session = last_session(self.folder)
        except ProgramError:  # damaged: the training itself will say so
            session = None
        began = datetime.fromisoformat(session.started).timestamp() if session else 0.0
        points = [(loss.time, loss.iteration) for loss in losses if loss.time is not None and loss.time >= began]
        if len(points) < 2 or points[-1][0] <= points[0][0]:
            return None
        return (points[-1][1] - points[0][1]) / (points[-1][0] - points[0][0])

    def seconds_left(self) -> float | None:
        """Until the last iteration, at that speed."""
        speed = self.speed()
        return (self.state.iterations - self.state.iteration) / speed if speed else None

    def silent(self) -> float:
        """Seconds since the log was last written to, 0 without a log."""
        try:
            return max(0.0, time.time() - self.folder.log.stat().st_mtime)
        except FileNotFoundError:
            return 0.0

    def terms(self) -> dict[str, float]:
        """The last values of the loss and its terms."""
        return {
            name: found[max(found)].value
            for (phase, name), found in self.history.measurements.items()
            if phase == "train" and found and name != "lr" and not name.endswith("accuracy")
        }

    def accuracies(self) -> dict[str, list[float]]:
        """The accuracies on each target so far, by the target's name; the last one of a finished run is its record's.

        Caffe tests after its last snapshot and one more pass through the training net, which moves running averages.
        """
        finished = self.state.state == State.FINISHED
        recorded = self.folder.read_record().targets if finished else {}
        found = {}
        for target in self.folder.experiment.tests.values():
            measured = self.history.measurements.get(("test", self.folder.experiment.accuracy_name(target)), {})
            values = [measurement.value for measurement in measured.values()]
            if target in recorded:
                values[-1:] = [recorded[target].accuracy]
            if values:
                found[target] = values
        return found


class _Tail:
    """The new lines of a file that grows. ``restarted`` is called when it is another file, or was cut."""

    def __init__(self, file: Path, restarted: Callable[[], None]) -> None:
        self._file, self._restarted = file, restarted
        self._inode, self._offset, self._rest = 0, 0, b""

    def lines(self) -> list[str]:
        """The whole lines since the last call."""
        expect_file(self._file, "caffe's log", missing_ok=True)
        try:
            with self._file.open("rb") as file:
                status = os.fstat(file.fileno())
                if status.st_ino != self._inode or status.st_size < self._offset:
                    self._inode, self._offset, self._rest = status.st_ino, 0, b""
                    self._restarted()
                file.seek(self._offset)
                new = file.read()
        except FileNotFoundError:
            return []
        self._offset += len(new)
        *lines, self._rest = (self._rest + new).split(b"\n")
        return [line.decode(errors="replace") for line in lines]


BLOCKS = " ▁▂▃▄▅▆▇█"

ASCII = " .:-=+*#%"
"""What curves are drawn with, from low to high."""

COLOURS = {
    State.WRITTEN: "2",
    State.RUNNING: "36",
    State.INTERRUPTED: "33",
    State.FAILED: "31",
    State.FINISHED: "32",
}
"""ANSI's codes; NO_COLOR in the environment leaves them out."""

FEW = 3
"""Runs that are printed in full where there is no screen to fit them into."""

SILENT = 120.0
"""Seconds without a line in the log after which a running run's silence is told."""


class Style:
    """How wide a view is, and what its terminal can show."""

    def __init__(self, width: int, *, coloured: bool, blocks: str) -> None:
        self.width = max(20, width)
        self.coloured = coloured
        self.blocks = blocks
        self.empty = "░" if blocks == BLOCKS else "."

    def state(self, text: str, state: State | None) -> str:
        """``text`` in the colour of a state."""
        return f"\x1b[{COLOURS[state]}m{text}\x1b[0m" if self.coloured and state else text


def curve(values: Sequence[float], width: int, blocks: str = BLOCKS) -> str:
    """The values from their least to their greatest, as a line of at most ``width`` blocks: the last of each share."""
    finite = [value for value in values if abs(value) < float("inf")]
    if not finite or width < 1:
        return ""
    count = min(width, len(finite))
    shown = [finite[(i + 1) * len(finite) // count - 1] for i in range(count)]
    low, high = min(shown), max(shown)
    steps = len(blocks) - 2
    return "".join(blocks[1 + round((value - low) / (high - low) * steps) if high > low else 1] for value in shown)


def duration(value: float) -> str:
    """Hours, minutes and seconds as 1:02:03 or 2:03."""
    minutes, rest = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def full(follower: Follower, style: Style) -> list[str]:
    """Everything about one run, in lines of at most the style's width."""
    name, state = _name(follower), follower.state
    if state is None:
        return [_cut(f"{name}: not there yet", style)]
    lines = [style.state(_cut(f"{name}: {state.state}{_doing(follower)}", style), state.state)]
    if state.state is not State.WRITTEN:
        lines.append(_cut(_progress(follower, style), style))
    if state.state in (State.FAILED, State.INTERRUPTED):
        lines += textwrap.wrap(state.note, style.width - 2, initial_indent="  ", subsequent_indent="  ", max_lines=4)
    terms = "  ".join(f"{term} {value:.4g}" for term, value in follower.terms().items())
    lines += textwrap.wrap(terms, style.width - 2, initial_indent="  ", subsequent_indent="  ")
    for target, values in follower.accuracies().items():
        label = f"  {target} {100 * values[-1]:.1f} %  "
        lines.append(_cut(label, style) + curve(values, max(0, style.width - len(label)), style.blocks))
    return lines


def brief(follower: Follower, style: Style) -> str:
    """One run in one line."""
    state = follower.state
    if state is None:
        return _cut(f"{_name(follower)}: not there yet", style)
    parts = [f"{state.iteration}/{state.iterations}"] if state.state is not State.WRITTEN else []
    if (left := follower.seconds_left()) is not None:
        parts.append(f"{duration(left)} left")
    parts += [f"{100 * values[-1]:.1f} %" for values in follower.accuracies().values()]
    if state.state is State.FAILED:
        parts.append(state.note)
    name_width = max(8, min(36, style.width - 36))
    name = _name(follower)
    name = name if len(name) <= name_width else "…" + name[1 - name_width :]
    text = _cut(f"{name:{name_width}} {state.state!s:11} {'  '.join(parts)}", style)
    return style.state(text, state.state)


def frame(followers: Sequence[Follower], style: Style, height: int | None) -> list[str]:
    """The whole view in at most ``height`` lines (None: there is no screen): in full, or many runs in a line each."""
    if height is not None or len(followers) <= FEW:
        lines = [line for follower in followers for line in [*full(follower, style), ""]][:-1]
        if height is None or len(lines) <= height:
            return lines
    counts = Counter(str(follower.state.state) if follower.state else "not there yet" for follower in followers)
    total = _cut(f"{len(followers)} runs: " + ", ".join(f"{count} {state}" for state, count in counts.items()), style)
    by_interest = sorted(followers, key=lambda follower: _ORDER.index(follower.state.state if follower.state else None))
    shown = set(by_interest if height is None else by_interest[: max(0, height - 1)])
    return [*(brief(follower, style) for follower in followers if follower in shown), total]


_ORDER = [State.RUNNING, State.FAILED, State.INTERRUPTED, State.FINISHED, State.WRITTEN, None]


def _name(follower: Follower) -> str:
    return follower.path.name or str(follower.path.resolve())


def _cut(text: str, style: Style) -> str:
    return text if len(text) <= style.width else text[: style.width - 1] + "…"


def _doing(follower: Follower) -> str:
    """What a running run is at, if it is not its iterations, and how long it has been silent if that is long."""
    if follower.state.state is not State.RUNNING:
        return ""
    note = f", {follower.state.note}" if follower.state.note else ""
    silent = follower.silent()
    return note + (f", silent for {duration(silent)}" if silent > SILENT and not note else "")


def _progress(follower: Follower, style: Style) -> str:
    state = follower.state
    text = f"{state.iteration}/{state.iterations}"
    if speed := follower.speed():
        text += f"  {speed:.3g} it/s  {duration(follower.seconds_left())} left"
    width = max(10, min(30, style.width - len(text) - 4))
    done = min(width, width * state.iteration // state.iterations)
    return f"  {style.blocks[-1] * done}{style.empty * (width - done)}  {text}"


def _ended(followers: Sequence[Follower]) -> bool:
    return all(f.state is not None and f.state.state in (State.FINISHED, State.FAILED) for f in followers)


def _look(paths: Sequence[Path], followers: dict[Path, Follower]) -> list[Follower]:
    """The followers of all runs that are there now, or are named and awaited, after a look at each."""
    found: dict[Path, Follower] = {}
    for path in paths:
        try:
            there = find_runs(path)
        except ProgramError:
            there = [path]
        for each in there:
            found[each] = followers.get(each) or Follower(each)
    followers.clear()
    followers.update(found)
    for follower in followers.values():
        follower.look()
    return list(followers.values())


def watch(paths: Sequence[Path], *, once: bool, interval: float) -> int:
    """Show the runs until they have ended, or once. Returns 1 if one failed, else 0."""
    if once:
        for path in paths:
            find_runs(path)  # nobody waits for what is not there
    live = sys.stdout.isatty() and not once
    blocks = BLOCKS if "utf" in (sys.stdout.encoding or "").lower() else ASCII
    coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    followers: dict[Path, Follower] = {}
    drawn, said = 0, None
    while True:
        shown = _look(paths, followers)
        size = shutil.get_terminal_size()
        style = Style(size.columns - 1 if live else size.columns, coloured=coloured, blocks=blocks)
        if live:
            lines = frame(shown, style, size.lines - 1)
            print((f"\x1b[{drawn}F\x1b[J" if drawn else "") + "\n".join(lines), flush=True)
            drawn = len(lines)
        else:
            news = [(f.path, f.state and f.state.state, f.state and f.folder and f.accuracies()) for f in shown]
            if news != said:
                print(*([""] if said else []), *frame(shown, style, None), sep="\n", flush=True)
                said = news
        if once or _ended(shown):
            return int(any(f.state is not None and f.state.state is State.FAILED for f in shown))
        time.sleep(interval)
