"""Write what runs' logs measured as TensorBoard event files: RUN/tensorboard/.

Scalars are train/loss, train/lr, the loss terms, and the accuracies, test/… on the target. A run that was resumed has
each iteration once. ``python -m tools.train --tensorboard`` writes the same while it trains. Look at them with:

    tensorboard --logdir runs/digits
"""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter
from tqdm import tqdm

from tools.caffe_log import Measurement, history
from tools.files import build_folder_aside
from tools.program import run
from tools.run_folder import RunFolder, find_runs

SOON = 5
"""Seconds in which a measurement of a run under way gets into its file."""


class Events:
    """An event file in ``folder`` that is written to."""

    def __init__(self, folder: Path) -> None:
        self._writer = EventFileWriter(str(folder), flush_secs=SOON)

    def add(self, measurement: Measurement) -> None:
        """Write one number, as of when it was logged."""
        value = Summary.Value(tag=f"{measurement.phase}/{measurement.name}", simple_value=measurement.value)
        event = Event(wall_time=measurement.time or 0.0, step=measurement.iteration, summary=Summary(value=[value]))
        self._writer.add_event(event)

    def close(self) -> None:
        """Write what is still waiting, and end the file."""
        self._writer.close()


def convert(folder: RunFolder, to: Path, *, before: int | None = None) -> int:
    """Replace the folder ``to`` by an event file of a run's log, up to the iteration ``before``; count its numbers."""
    log = folder.log.read_text(errors="replace").splitlines() if folder.log.exists() else []
    measurements = [
        measurement
        for found in history(log).measurements.values()
        for measurement in found.values()
        if before is None or measurement.iteration < before
    ]
    with build_folder_aside(to, force=True) as aside:
        events = Events(aside)
        for measurement in sorted(measurements, key=lambda m: (m.iteration, m.time or 0.0)):
            events.add(measurement)
        events.close()
    return len(measurements)


@contextmanager
def live_events(folder: RunFolder, start: int) -> Iterator[Events]:
    """Events of a run that is trained on from iteration ``start``, after those of its log before that."""
    to = folder.path / "tensorboard"
    convert(folder, to, before=start)
    events = Events(to)
    try:
        yield events
    finally:
        events.close()


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.tensorboard", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run folders, or folders of run folders")
    options = parser.parse_args()
    folders = [RunFolder.load(path) for given in options.runs for path in find_runs(given)]
    for folder in tqdm(folders, unit="run", disable=len(folders) < 2):
        with folder.locked():  # who trains it writes them
            count = convert(folder, folder.path / "tensorboard")
        tqdm.write(f"{folder.path / 'tensorboard'}: {count} numbers")
    return 0


if __name__ == "__main__":
    run(main)
