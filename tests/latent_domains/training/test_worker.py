"""The real process that goes on with a run from a snapshot, with the real solver and tiny LMDBs."""

import json
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from caffe.proto import caffe_pb2

from latent_domains.common.caffe_process import curves
from latent_domains.common.program import ProgramError
from latent_domains.runs.run_folder import RunFolder
from latent_domains.runs.write import write_run
from latent_domains.training.train import start_worker
from tests.gpu import WHY_NO_GPU
from tests.programs import wait_until
from tests.run_folders import blobs, edit, lasting, small
from tests.training import train_here

pytestmark = pytest.mark.program


def written(path: Path, data: Path, method: str = "mda", **options: Any) -> RunFolder:
    """A small run of digits for the CPU."""
    return write_run(small(method, **options), path, data=data, solver_mode="CPU")


def trained_for(run: RunFolder, iterations: int) -> RunFolder:
    """Train a run, and give it so many iterations: what comes after is to be trained from its snapshot."""
    train_here(run)
    run.record_file.unlink()
    return lasting(run, iterations)


def test_worker_it_tests_and_writes_snapshots_as_caffe_train_does(tiny_data, tmp_path):
    run = written(tmp_path / "run", tiny_data, known_share=0.25, iterations=2)
    for setting, value in (("display: 10", "display: 1"), ("test_interval: 100", "test_interval: 3")):
        edit(run.solver, setting, value)
    edit(run.solver, "snapshot: 500", "snapshot: 4")
    run = trained_for(run, 6)
    train_here(run, resume=True)
    found = curves(run.log.read_text().splitlines())
    assert sorted(found["train", "loss"]) == [0, 1, 2, 3, 4, 5]
    assert sorted(found["test", "accuracy"]) == [3, 6]
    assert [snapshot.iteration for snapshot in run.complete_snapshots()] == [6, 4, 2]
    record = run.read_record()
    assert record.iteration == 6 and record.last_values["loss_class"] == found["train", "loss_class"][5]
    # The log's last test is one forward pass further than the snapshot, as that of caffe train.
    assert record.accuracy == pytest.approx(found["test", "accuracy"][6], abs=0.2)


def workers(run: RunFolder) -> list[int]:
    """Ids of the living processes that go on with a run."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if "latent_domains.training.worker" in words and any(word.startswith(str(run.path)) for word in words):
            found.append(process.pid)
    return found


@contextmanager
def once_it_runs(run: RunFolder, act: Callable[[list[int]], None]) -> Iterator[None]:
    """While the block trains ``run``, call ``act`` with the process's id when it has done a few iterations."""

    def work() -> None:
        try:
            wait_until(lambda: "Iteration 10 (" in run.log.read_text(), seconds=300)
        finally:
            act(workers(run))

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        thread.join()


@pytest.fixture
def long(tiny_data, tmp_path):
    """A run without end, of small batches, that is to go on from iteration 6."""
    return trained_for(written(tmp_path / "run", tiny_data, "dial"), 100_000)


def test_worker_ctrl_c_stops_after_an_iteration_with_a_snapshot_that_it_goes_on_from(long):
    def press(processes: list[int]) -> None:
        assert len(processes) == 1
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt), once_it_runs(long, press):
        train_here(long, resume=True)
    assert not workers(long) and not long.record_file.exists()
    reached = long.latest_snapshot().iteration
    assert reached >= 10 and "Optimization stopped early." in long.log.read_text()
    resumed = lasting(long, reached + 5)
    train_here(resumed, resume=True)
    assert json.loads(resumed.record_file.read_text())["iteration"] == reached + 5
    assert f"Resuming from {long.snapshots}/model_iter_{reached}.solverstate" in long.log.read_text()


def test_worker_one_that_is_killed_ends_with_one_message(long, capsys):
    message = f"{long.path}: training failed: killed by SIGKILL, perhaps for its memory (whole log: {long.log})"
    killed = []

    def kill(processes: list[int]) -> None:
        os.kill(processes[0], signal.SIGKILL)
        killed.append(time.monotonic())

    with pytest.raises(ProgramError, match=f"^{re.escape(message)}$"), once_it_runs(long, kill):
        train_here(long, resume=True)
    assert time.monotonic() - killed[0] < 30 and not workers(long)
    assert "error" not in capsys.readouterr().err


def test_start_worker_ctrl_c_before_it_has_caught_up_leaves_the_snapshot_as_it_is(tiny_data, tmp_path):
    run = trained_for(written(tmp_path / "run", tiny_data, "dial"), 20_000_000)
    snapshot = run.latest_snapshot()
    state = caffe_pb2.SolverState.FromString(snapshot.state.read_bytes())
    state.iter = 10_000_000  # more than it could catch up with
    snapshot.state.write_bytes(state.SerializeToString())
    before = {file: file.stat().st_mtime_ns for file in run.snapshots.iterdir()}
    with start_worker(run.solver, snapshot.state, 1) as child:
        lines = []
        for line in child.lines():
            lines.append(line)
            if "Going on with the records and random numbers after iteration 10000000" in line:
                child.process.send_signal(signal.SIGINT)
    assert child.failure is None
    assert any(line.endswith("] Optimization stopped early.\n") for line in lines), "what reads ahead may log after it"
    assert {file: file.stat().st_mtime_ns for file in run.snapshots.iterdir()} == before


@pytest.mark.gpu
@pytest.mark.skipif(WHY_NO_GPU is not None, reason=WHY_NO_GPU or "")
@pytest.mark.parametrize("method", ["plain", "source_only", "mda"])
def test_worker_a_gpu_learns_what_the_cpu_learns(method, tiny_data, tmp_path):
    """By ``caffe train``, and by the process that goes on from its snapshot."""
    learnt = []
    for mode in ("GPU", "CPU"):
        run = written(tmp_path / mode, tiny_data, method, iterations=2)
        train_here(run, solver_mode=mode)
        run.record_file.unlink()
        run = lasting(run, 4)
        train_here(run, solver_mode=mode, resume=True)
        learnt.append(blobs(run.latest_snapshot().model))
    found, expected = learnt
    assert found.keys() == expected.keys()
    for name in found:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-3, atol=1e-4, err_msg=name)
