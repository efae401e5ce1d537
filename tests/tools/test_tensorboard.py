"""TensorBoard's event files, read back with TensorBoard's own reader."""

from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from latent_domains.common.caffe_log import curves
from tests.programs import program
from tests.run_folders import RunFolder


def scalars(folder: Path) -> dict[str, dict[int, float]]:
    """Every scalar by step; a step that is there twice fails."""
    read = EventAccumulator(str(folder))
    read.Reload()
    found = {}
    for tag in read.Tags()["scalars"]:
        events = read.Scalars(tag)
        found[tag] = {event.step: event.value for event in events}
        assert len(found[tag]) == len(events), f"{tag}: a step twice"
        assert all(event.wall_time > 1e9 for event in events)
    return found


def test_events_are_those_of_the_log(trained: RunFolder):
    for _ in range(2):  # again, in place of the first
        done = program("tensorboard", trained.path)
        assert done.returncode == 0, done.stderr
    found = scalars(trained.path / "tensorboard")
    assert {"train/loss", "train/lr", "train/loss_class", "train/entropy_class"} <= set(found)
    log = curves(trained.log_lines())
    assert {name: list(values) for name, values in found.items()} == {
        f"{phase}/{name}": sorted(values) for (phase, name), values in log.items()
    }
    assert found["train/loss"][0] == pytest.approx(log["train", "loss"][0])


def test_no_runs_is_told(tmp_path):
    done = program("tensorboard", tmp_path)
    assert done.returncode == 1
    assert done.stderr == (
        f"error: {tmp_path}: no experiment.json in it or its folders, expected run folders (tools.write_run)\n"
    )
