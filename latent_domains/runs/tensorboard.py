"""TensorBoard's event files of a run's log."""

from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from latent_domains.common.caffe_log import history
from latent_domains.common.files import build_folder_aside
from latent_domains.runs.run_folder import RunFolder


def write_events(folder: RunFolder, to: Path) -> int:
    """Replace the folder ``to`` by an event file of a run's log; return how many numbers it holds."""
    log = history(folder.log_lines())
    found = [measurement for of_name in log.measurements.values() for measurement in of_name.values()]
    with build_folder_aside(to, force=True) as aside:
        writer = EventFileWriter(str(aside))
        for measurement in sorted(found, key=lambda m: (m.iteration, m.time or 0.0)):
            value = Summary.Value(tag=f"{measurement.phase}/{measurement.name}", simple_value=measurement.value)
            summary, time = Summary(value=[value]), measurement.time or 0.0
            writer.add_event(Event(wall_time=time, step=measurement.iteration, summary=summary))
        writer.close()
    return len(found)
