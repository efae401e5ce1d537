"""The state of a run folder in every case there is, and the sessions of its training."""

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime

import pytest

from latent_domains.common.program import ROOT, ProgramError
from latent_domains.experiment.experiment import make_experiment
from latent_domains.runs.run_folder import RunFolder
from latent_domains.runs.run_state import (
    State,
    last_iteration,
    recording_failure,
    recording_session,
    state_of,
)
from latent_domains.runs.write import write_run
from tests.programs import child, wait_until
from tests.run_folders import lasting
from tests.training import train_here

LINE = "I20261121 18:10:37.7 1 solver.cpp:239] Iteration {} (4.3 iter/s, 2.3s/10 iters), loss = 0.5\n"


@pytest.fixture
def folder(tiny_data, tmp_path) -> RunFolder:
    experiment = make_experiment("digits", "source_only", batch_size=4, iterations=6)
    return write_run(experiment, tmp_path / "run", data=tiny_data)


def shown(folder: RunFolder) -> str:
    return str(state_of(folder))


def test_recording_session_only_a_lock_makes_a_run_running(folder):
    assert not folder.is_locked() and shown(folder) == "written"
    with folder.locked():
        assert folder.is_locked()
        assert shown(folder) == "running: waiting for its turn"
        with recording_session(folder, 0, {}, lambda: False):
            folder.log.write_text(LINE.format(2))
            assert shown(folder) == "running at iteration 2 of 6"
        assert shown(folder) == "running at iteration 2 of 6: evaluating"
    assert not folder.is_locked()


def test_write_run_a_link_in_place_of_the_lock_is_not_followed(folder, tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("mine")
    (folder.path / "lock").symlink_to(precious)
    with pytest.raises(ProgramError, match=r"run/lock: a link to .*precious, expected a file"), folder.locked():
        pass
    assert precious.read_text() == "mine"


def test_state_of_a_fifo_in_place_of_the_lock_is_not_waited_for(folder):
    os.mkfifo(folder.path / "lock")
    assert shown(folder) == "written"


def test_write_run_a_file_system_without_locks_is_told_once(folder, monkeypatch, capsys):
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.fcntl", no_locks)
    for _ in range(2):
        with folder.locked():
            assert not folder.is_locked()
    said = f"note: {folder.path}: not locked, as its file system has no locks (No locks available): do not train it"
    assert capsys.readouterr().err.startswith(said) and not capsys.readouterr().err


def test_write_run_a_folder_that_was_replaced_while_its_lock_was_waited_for_is_told(folder, tmp_path):
    with folder.locked():  # what a process that waits has open is the first one's
        lock = os.open(folder.path / "lock", os.O_RDWR)
    folder.path.rename(tmp_path / "old")
    write_run(folder.experiment, folder.path, data=folder.data_folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "open", lambda *_: lock)
        with (
            pytest.raises(ProgramError, match="run: another process replaced it meanwhile"),
            folder.locked(),
        ):
            raise AssertionError("entered")
    with folder.locked():
        pass


def test_state_of_a_log_that_is_no_regular_file_is_told(folder):
    folder.log.symlink_to("/dev/null")
    with pytest.raises(ProgramError, match=r"train\.log: no regular file, expected caffe's log"):
        state_of(folder)


@pytest.mark.program
def test_state_of_a_killed_run_is_interrupted_and_its_session_has_no_end(folder):
    folder = lasting(folder, 1_000_000)
    folder.solver.write_text(folder.solver.read_text().replace("snapshot: 500", "snapshot: 20"))
    training = subprocess.Popen(
        [sys.executable, "-m", "tools.train", "--threads", "1", str(folder.path)],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: folder.log.exists() and "_iter_20.solverstate" in folder.log.read_text(), seconds=90)
        assert state_of(folder).state is State.RUNNING
        caffe = int(subprocess.check_output(["pgrep", "-P", str(training.pid), "-x", "caffe"], text=True))
        os.kill(caffe, signal.SIGTERM)  # as SLURM does: caffe leaves it to the program to end it, with a snapshot
        time.sleep(0.3)
        assert training.poll() is None
        os.kill(caffe, signal.SIGSTOP)  # so that it is not its next line, which nobody reads any more, that ends it
        size = -1
        while size != (size := folder.log.stat().st_size):  # what it has said is read
            time.sleep(0.5)
    finally:
        training.kill()
        training.wait()
    wait_until(lambda: not folder.is_locked(), seconds=10)
    state = state_of(folder)
    start = folder.latest_snapshot().iteration
    assert state.state is State.INTERRUPTED and state.iteration >= start >= 20
    assert str(state) == f"interrupted at iteration {state.iteration} of 1000000: goes on from {start}"

    folder = lasting(folder, start + 1)
    train_here(folder, resume=True)
    assert shown(folder) == "finished"
    training = folder.read_record().training
    first, second = training.sessions
    assert (first.ended, first.to_iteration, first.finished) == (None, None, None)
    assert (second.ended, second.from_iteration, second.to_iteration) == ("finished", start, start + 1)
    assert training.seconds == pytest.approx(second.seconds)
    times = [datetime.fromisoformat(when) for when in (first.started, second.started, second.finished)]
    assert times == sorted(times) and all(when.tzinfo == UTC for when in times)
    assert first.commit == second.commit is not None


@pytest.mark.program
def test_state_of_a_failed_run_says_why_until_it_goes_on(folder):
    net, lmdb = folder.net("train"), folder.train_lmdbs["mnist"]
    whole = net.read_text()
    net.write_text(whole.replace('type: "Pooling"', 'type: "Silence"'))
    done = child("train", "--threads", "1", folder.path)
    assert done.returncode == 1
    failure = folder.read_failure()
    assert failure.step == "training" and failure.iteration == 0
    assert "Silence Layer produces 0 top" in failure.reason and done.stderr.endswith(f"error: {failure.reason}\n")
    assert shown(folder) == f"failed: {failure.reason}"
    net.write_text(whole)
    lmdb.rename(lmdb.with_name("elsewhere"))
    try:
        with pytest.raises(ProgramError, match="no LMDB there"):
            train_here(folder, resume=True)
    finally:
        lmdb.with_name("elsewhere").rename(lmdb)
    assert folder.read_failure().step == "preparation" and "no LMDB there" in shown(folder)
    train_here(folder, resume=True)
    assert shown(folder) == "finished" and not folder.failure.exists()
    ended = [session.ended for session in folder.read_record().training.sessions]
    assert ended == ["failed", "finished"]


def test_recording_failure_a_failure_that_names_a_path_of_any_bytes_is_kept(folder):
    with pytest.raises(ProgramError, match="no LMDB there"), recording_failure(folder, "preparation"):
        raise ProgramError(os.fsdecode(b"caf\xe9: no LMDB there"))
    assert folder.read_failure().reason == r"caf\udce9: no LMDB there"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("record.json", "{", "record.json: not valid JSON"),
        ("failure.json", "{}", "failure.json: found no reason, step, iteration, time"),
    ],
)
def test_state_of_damaged_files_are_named(name, text, message, folder):
    (folder.path / name).write_text(text)
    state = state_of(folder)
    assert state.state is State.FAILED and message in state.note


@pytest.mark.program
def test_state_of_training_without_our_program_is_seen(folder):
    """``caffe train -solver …`` by hand leaves snapshots alone."""
    folder.log.write_text("killed before its first iteration\n")
    assert shown(folder) == "interrupted: begins anew: no snapshot yet"
    subprocess.run(["caffe", "train", "-solver", folder.solver], cwd=ROOT, check=True, capture_output=True)
    folder.log.unlink()
    assert shown(folder) == "interrupted at iteration 6 of 6: trained, not yet evaluated"


def test_recording_session_a_session_says_what_is_not_as_it_was(folder):
    how = {"threads": 2, "openblas": "Zen", "solver_mode": "CPU"}
    other = {"threads": 1, "openblas": "Haswell", "solver_mode": "GPU"}
    nets = [{"files": {"train.prototxt": contents}} for contents in "ab"]
    for iteration, changed in ((0, {}), (0, {"threads": 3}), (3, {}), (4, other), (5, nets[0]), (6, nets[1])):
        with recording_session(folder, iteration, how | changed, lambda: False):
            pass
    found = [session.differs for session in folder.read_training().sessions]
    all_three = [
        "threads 2 before, openblas Zen before, solver_mode CPU before",
        "threads 1 before, openblas Haswell before, solver_mode GPU before",
    ]
    assert found == [None, None, "threads 3 before", *all_three, "another train.prototxt before"]


def test_last_iteration_iterations_of_earlier_sessions_do_not_count(folder):
    loading = "I1 1 solver.cpp:45] Initializing solver from parameters: \n"
    folder.log.write_text(loading + LINE.format(500) + LINE.format(700))
    assert last_iteration(folder) == 700
    with folder.log.open("a") as log:
        log.write(f"{loading}F1 1 layer.cpp:1] no memory\n")
    assert last_iteration(folder) == 0


@pytest.mark.program
def test_write_run_another_process_is_named_or_waited_for(folder, capfd):
    code = "import sys\nfrom pathlib import Path\nfrom latent_domains.runs.run_folder import RunFolder\n"
    code += "with RunFolder.load(Path(sys.argv[1])).locked():\n    print(flush=True)\n    sys.stdin.read()"
    other = subprocess.Popen(
        [sys.executable, "-c", code, str(folder.path)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        other.stdout.readline()
        named = f"in use by process {other.pid} on .*: wait until that ends"
        with pytest.raises(ProgramError, match=named) as error, folder.locked():
            pass
        assert "--force" not in str(error.value)
        threading.Timer(3, other.stdin.close).start()
        with folder.locked(wait=True):
            assert f"waiting for process {other.pid} on " in capfd.readouterr().err
            assert other.wait(30) == 0
            with pytest.raises(ProgramError, match="named twice"), folder.locked(wait=True):
                pass
    finally:
        other.kill()
        other.wait()
