"""Follow a run from outside: its state and, as they come, the measurements of its log. The run notices nothing."""

import os
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from latent_domains.common.caffe_log import History
from latent_domains.common.program import ProgramError
from latent_domains.runs.run_folder import RunFolder
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
