"""TensorBoard's event files, read back with TensorBoard's own reader."""

import subprocess
import sys
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from latent_domains.common.caffe_log import curves
from latent_domains.common.program import ROOT
from latent_domains.experiment.experiment import make_experiment
from latent_domains.runs.run_folder import RunFolder
from latent_domains.runs.write import write_run
from latent_domains.training.events import convert
from latent_domains.training.train import train_all
from tests.programs import program
from tests.run_folders import lasting


def scalars(folder: Path) -> dict[str, dict[int, float]]:
    """Every scalar by step; a step that is there twice fails."""
    read = EventAccumulator(str(folder))
    read.Reload()
    found = {}
    for tag in read.Tags()["scalars"]:
        events = read.Scalars(tag)
        found[tag] = {event.step: event.value for event in events}
        assert len(found[tag]) == len(events), f"{tag}: a step twice"
        times = [event.wall_time for event in events]
        assert times == sorted(times) and times[0] > 1e9
    return found


def of_log(folder: RunFolder) -> dict[str, dict[int, float]]:
    found = curves(folder.log.read_text().splitlines())
    return {f"{phase}/{name}": pytest.approx(values, rel=1e-6) for (phase, name), values in found.items()}


def test_events_of_a_resumed_run_live_and_converted(tiny_data, tmp_path):
    folder = write_run(make_experiment("digits", "dial", batch_size=4, iterations=30), tmp_path / "run", data=tiny_data)
    solver = folder.solver.read_text().replace("snapshot: 500", "snapshot: 10")
    folder.solver.write_text(solver.replace("test_interval: 100", "test_interval: 10"))
    train_all([folder], threads=1, tensorboard=True)
    events = folder.path / "tensorboard"
    assert scalars(events) == of_log(folder)
    tags = {"train/loss", "train/lr", "train/loss_class", "train/entropy_class", "test/accuracy"}
    assert tags <= set(scalars(events)) and list(scalars(events)["train/loss"]) == [0, 10, 20]

    for snapshot in folder.snapshots.glob("model_iter_30.*"):  # as if it had been killed after iteration 20
        snapshot.unlink()
    folder.record.unlink()
    folder = lasting(folder, 50)
    train_all([folder], threads=1, resume=True, tensorboard=True)
    live = scalars(events)
    assert live == of_log(folder) and list(live["train/loss"]) == [0, 10, 20, 30, 40]
    done = program("tensorboard", tmp_path)
    assert done.returncode == 0 and done.stderr == ""
    assert scalars(events) == live
    with folder.locked():
        done = program("tensorboard", folder.path)
    assert done.returncode == 1 and "it is being trained already" in done.stderr


def test_what_a_killed_session_had_beyond_its_snapshot_is_dropped(tmp_path):
    line = "I20261121 18:{:02}:00.0 1 solver.cpp:239] Iteration {} (4.3 iter/s, 2.3s/10 iters), loss = {}\n"
    experiment = make_experiment("digits", "dial", batch_size=4, iterations=100)
    folder = RunFolder(tmp_path, experiment, tmp_path)
    steps = [*range(0, 80, 10), *range(50, 70, 10)]
    folder.log.write_text("".join(line.format(minute, step, minute) for minute, step in enumerate(steps)))
    assert convert(folder, tmp_path / "events") == 7
    assert scalars(tmp_path / "events") == {"train/loss": {0: 0, 10: 1, 20: 2, 30: 3, 40: 4, 50: 8, 60: 9}}
    assert convert(folder, tmp_path / "events", before=50) == 5
    assert list(scalars(tmp_path / "events")["train/loss"]) == [0, 10, 20, 30, 40]


def test_no_runs_is_told(tmp_path):
    done = program("tensorboard", tmp_path)
    assert done.returncode == 1
    assert done.stderr == (
        f"error: {tmp_path}: no experiment.json in it or its folders, expected run folders (tools.write_run)\n"
    )


def test_training_without_the_option_does_not_import_tensorboard():
    code = "import sys, tools.train; sys.exit(any(name.partition('.')[0] == 'tensorboard' for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
