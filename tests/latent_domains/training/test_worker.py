"""Real processes that train one run together on the CPU, with the real solver and tiny LMDBs."""

import json
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import caffe
import numpy as np
import psutil
import pytest
from caffe.proto import caffe_pb2

from latent_domains.common.caffe_log import curves
from latent_domains.common.gpus import gpu_names
from latent_domains.common.program import ROOT, ProgramError
from latent_domains.runs.devices import Devices
from latent_domains.runs.run_folder import RunFolder
from latent_domains.training.group import start_workers
from latent_domains.training.train import train_all
from tests.gpu import WHY_NO_GPU
from tests.latent_domains.training.processes import blobs, train, written
from tests.programs import wait_until
from tests.run_folders import lasting


def test_two_processes_learn_what_one_learns(tiny_data, tmp_path):
    """Without batch statistics the mean of the shares' gradients is the batch's gradient, iteration by iteration."""
    one, two = (written(tmp_path / name, tiny_data, "plain", iterations=8) for name in ("one", "two"))
    alone, together = train(one, Devices(1)), train(two, Devices(2))
    first = caffe.get_solver(str(one.solver)).net.params["conv1"][0].data.ravel()
    assert alone.keys() == together.keys() >= {"conv1.0", "conv1.1", "fc5.0"}
    for name in alone:
        np.testing.assert_allclose(together[name], alone[name], rtol=1e-4, atol=1e-6, err_msg=name)
    assert np.abs(alone["conv1.0"] - first).max() > 1e-3  # they have learned


@pytest.mark.parametrize("method", ["mda", "source_only"])
def test_one_process_does_what_caffe_train_does(method, tiny_data, tmp_path):
    ours, theirs = (written(tmp_path / name, tiny_data, method) for name in ("ours", "theirs"))
    found = train(ours, Devices(1))
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}  # as train's: another number gives other last bits
    subprocess.run(
        ["caffe", "train", "-solver", theirs.solver], cwd=ROOT, check=True, capture_output=True, env=one_thread
    )
    expected = blobs(theirs.latest_snapshot().model)
    assert found.keys() == expected.keys()
    for name in found:
        np.testing.assert_array_equal(found[name], expected[name], err_msg=name)


@pytest.mark.parametrize(("method", "layer"), [("dial", "conv1_mda"), ("source_only", "conv1_bn")])
def test_statistics_are_averaged_over_the_processes(method, layer, tiny_data, tmp_path):
    """In the first iteration the mean over the shares' images is that over the batch."""
    runs = [written(tmp_path / name, tiny_data, method, iterations=1, display=10) for name in ("one", "two")]
    alone, together = train(runs[0], Devices(1)), train(runs[1], Devices(2))
    scale = np.abs(alone[f"{layer}.0"]).max()
    np.testing.assert_allclose(together[f"{layer}.0"], alone[f"{layer}.0"], rtol=1e-4, atol=1e-5 * scale)
    np.testing.assert_array_equal(together[f"{layer}.2"], alone[f"{layer}.2"])


@pytest.mark.program
def test_a_run_of_two_processes_is_recorded_and_read_like_any_other(tiny_data, tmp_path):
    run = written(tmp_path / "run", tiny_data, known_share=0.25)
    text = run.solver.read_text().replace("test_interval: 100", "test_interval: 3")
    run.solver.write_text(text.replace("snapshot: 500", "snapshot: 4"))
    train_all([run], threads=1, devices=Devices(2))
    found = curves(run.log.read_text().splitlines())
    assert sorted(found["train", "loss"]) == [0, 1, 2, 3, 4, 5]
    assert sorted(found["test", "accuracy"]) == [3, 6]
    assert [snapshot.iteration for snapshot in run.complete_snapshots()] == [6, 4]
    record = json.loads(run.record.read_text())
    assert record["training"]["processes"] == 2 and record["iteration"] == 6
    assert record["last_values"]["loss_class"] == found["train", "loss_class"][5]
    # The log's last test is one forward pass further than the snapshot, as that of caffe train.
    assert record["accuracy"] == pytest.approx(found["test", "accuracy"][6], abs=0.2)


def workers(run: RunFolder) -> dict[str, int]:
    """Ids of the living processes that train a run, by rank."""
    found = {}
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if "latent_domains.training.worker" in words and any(word.startswith(str(run.path)) for word in words):
            found[words[words.index("--rank") + 1]] = process.pid
    return found


@contextmanager
def once_it_runs(run: RunFolder, act: Callable[[dict[str, int]], None]) -> Iterator[None]:
    """While the block trains ``run``, call ``act`` with the processes' ids when they have done a few iterations."""

    def work() -> None:
        try:
            wait_until(lambda: run.log.exists() and "Iteration 10 (" in run.log.read_text(), seconds=300)
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
    """A run without end, of small batches."""
    return written(tmp_path / "run", tiny_data, "dial", iterations=100_000, display=10)


def test_ctrl_c_stops_all_after_the_same_iteration_and_any_number_goes_on(long):
    def press(processes: dict[str, int]) -> None:
        assert set(processes) == {"0", "1"}
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt), once_it_runs(long, press):
        train_all([long], threads=1, devices=Devices(2))
    assert not workers(long) and not long.record.exists()
    reached = long.latest_snapshot().iteration
    assert reached >= 10 and "Optimization stopped early." in long.log.read_text()
    for file in (long.solver, long.path / "experiment.json"):
        file.write_text(file.read_text().replace("100000", str(reached + 5)))
    resumed = RunFolder.load(long.path)
    train_all([resumed], threads=1, resume=True, devices=Devices(1))
    record = json.loads(resumed.record.read_text())
    assert record["iteration"] == reached + 5 and record["training"]["processes"] == 1
    assert f"Resuming from {long.snapshots}/model_iter_{reached}.solverstate" in long.log.read_text()


def test_one_that_is_killed_ends_all_with_one_message(long, capsys):
    message = f"{long.path}: process 1 failed: killed by SIGKILL, perhaps for its memory (whole log: {long.log})"
    killed = []

    def kill(processes: dict[str, int]) -> None:
        os.kill(processes["1"], signal.SIGKILL)
        killed.append(time.monotonic())

    with pytest.raises(ProgramError, match=f"^{re.escape(message)}$"), once_it_runs(long, kill):
        train_all([long], threads=1, devices=Devices(2))
    assert time.monotonic() - killed[0] < 30 and not workers(long)
    assert "error" not in capsys.readouterr().err


def test_ctrl_c_before_it_has_caught_up_leaves_the_snapshot_as_it_is(tiny_data, tmp_path):
    run = written(tmp_path / "run", tiny_data, "dial")
    train(run, Devices(1))
    snapshot = run.latest_snapshot()
    state = caffe_pb2.SolverState.FromString(snapshot.state.read_bytes())
    state.iter = 10_000_000  # more than it could catch up with
    snapshot.state.write_bytes(state.SerializeToString())
    before = {file: file.stat().st_mtime_ns for file in run.snapshots.iterdir()}
    run = lasting(run, 20_000_000)
    with start_workers([run.solver], Devices(1), 1, snapshot=snapshot.state) as group:
        lines = []
        for line in group.lines():
            lines.append(line)
            if "Going on with the records and random numbers after iteration 10000000" in line:
                group.members["process 0"].send_signal(signal.SIGINT)
    assert group.failure is None
    assert any(line.endswith("] Optimization stopped early.\n") for line in lines), "what reads ahead may log after it"
    assert {file: file.stat().st_mtime_ns for file in run.snapshots.iterdir()} == before


# --- on GPUs for real

COUNT = 0 if WHY_NO_GPU else len(gpu_names())


def on_gpus(test):
    """A test on GPUs for real; skipped where there is none, and by the marks below where there are not enough."""
    return pytest.mark.gpu(pytest.mark.skipif(WHY_NO_GPU is not None, reason=WHY_NO_GPU or "")(test))


needs_nccl = pytest.mark.skipif(not caffe.has_nccl(), reason="this Caffe was built without NCCL")
needs_two = pytest.mark.skipif(COUNT < 2, reason=f"it takes two GPUs, and there are {COUNT}")


@dataclass(frozen=True)
class ThroughNccl(Devices):
    """One GPU's gradients go through NCCL too."""

    @property
    def uses_nccl(self) -> bool:
        return True


def assert_close(found, expected) -> None:
    assert found.keys() == expected.keys()
    for name in found:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-3, atol=1e-4, err_msg=name)


@on_gpus
@pytest.mark.parametrize("devices", [Devices(1, (0,)), pytest.param(ThroughNccl(1, (0,)), marks=needs_nccl)])
@pytest.mark.parametrize("method", ["plain", "source_only", "mda"])
def test_one_gpu_learns_what_the_cpu_learns(method, devices, tiny_data, tmp_path):
    runs = [written(tmp_path / name, tiny_data, method, iterations=4) for name in ("gpu", "cpu")]
    assert_close(train(runs[0], devices), train(runs[1], Devices(1)))


@on_gpus
@needs_nccl
@needs_two
@pytest.mark.parametrize("layer_wise", [True, False])
def test_two_gpus_learn_what_one_learns(layer_wise, tiny_data, tmp_path):
    runs = [written(tmp_path / name, tiny_data, "plain", iterations=8) for name in ("two", "one")]
    for run in runs:
        run.solver.write_text(run.solver.read_text() + f"layer_wise_reduce: {str(layer_wise).lower()}\n")
    assert_close(train(runs[0], Devices(2, (0, 1))), train(runs[1], Devices(1, (0,))))


@on_gpus
@needs_nccl
@needs_two
def test_two_gpus_have_the_statistics_of_two_processes_on_the_cpu(tiny_data, tmp_path):
    """NCCL and the sockets do the same: statistics, and what was learned with them, are those of the CPU."""
    runs = [written(tmp_path / name, tiny_data, "mda", iterations=4) for name in ("gpus", "cpu")]
    assert_close(train(runs[0], Devices(2, (0, 1))), train(runs[1], Devices(2)))
