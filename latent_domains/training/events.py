"""TensorBoard's event files of a run's log, afterwards or live."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from latent_domains.common.caffe_log import Measurement, history
from latent_domains.common.files import build_folder_aside
from latent_domains.runs.run_folder import RunFolder

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
    measurements = [
        measurement
        for found in history(folder.log_lines()).measurements.values()
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
