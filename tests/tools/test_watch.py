"""The view of runs: what it says of each state, how wide it is, how it follows a run and when it ends."""

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from pathlib import Path

import pytest

from latent_domains.common.files import write_text
from latent_domains.common.program import ROOT
from latent_domains.experiment.experiment import make_experiment
from latent_domains.runs import sessions
from latent_domains.runs.run_folder import RunFolder
from latent_domains.runs.watch import ASCII, BLOCKS, Follower, Style, brief, curve, duration, frame, full
from latent_domains.runs.write import write_run
from tests.programs import program

LOG = """\
I20261121 10:00:{second:02}.0 1 solver.cpp:347] Iteration {iteration}, Testing net (#0)
I20261121 10:00:{second:02}.0 1 solver.cpp:414]     Test net output #0: accuracy = {accuracy}
I20261121 10:00:{second:02}.0 1 solver.cpp:239] Iteration {iteration} (4.3 iter/s, 2.3s/10 iters), loss = 0.5
I20261121 10:00:{second:02}.0 1 solver.cpp:258]     Train net output #0: loss_class = 0.25 (* 1 = 0.25 loss)
I20261121 10:00:{second:02}.0 1 solver.cpp:258]     Train net output #1: source_accuracy = 0.976562
I20261121 10:00:{second:02}.0 1 sgd_solver.cpp:112] Iteration {iteration}, lr = 0.01
"""


def measured(folder: RunFolder, *iterations: int) -> None:
    """Continue the run's log: 10 iterations in 2 seconds, an accuracy that grows."""
    with folder.log.open("a") as log:
        for iteration in iterations:
            log.write(LOG.format(iteration=iteration, second=iteration // 5, accuracy=iteration / 100))


@pytest.fixture
def folder(tiny_data, tmp_path) -> RunFolder:
    return write_run(make_experiment("digits", "dial", batch_size=4, iterations=100), tmp_path / "run", data=tiny_data)


def lines(folder: RunFolder, width: int = 60) -> list[str]:
    follower = Follower(folder.path)
    follower.look()
    return full(follower, Style(width, coloured=False, blocks=BLOCKS))


def finish(folder: RunFolder) -> None:
    """As an evaluated run: what is looked at of its record."""
    values = {"experiment": folder.experiment.to_json(), "accuracy": 0.5, "targets": {}, "domain_usage": None}
    write_text(folder.record, json.dumps(values))  # at once, since it is being watched


def test_every_state_is_told(folder):
    assert lines(folder) == ["run: written"]
    measured(folder, *range(0, 51, 10))
    assert lines(folder)[:3] == [
        "run: interrupted",
        "  " + "█" * 15 + "░" * 15 + "  50/100",
        "  begins anew: no snapshot yet",
    ]
    with folder.locked():
        folder.training.write_text(
            json.dumps({"seconds": 1, "sessions": [{"started": "2026-11-20T10:00:00+00:00", "ended": None}]})
        )
        assert lines(folder) == [
            "run: running",
            "  " + "█" * 15 + "░" * 15 + "  50/100  5 it/s  0:10 left",
            "  loss 0.5  loss_class 0.25",
            "  usps 50.0 %  ▁▂▄▅▇█",
        ]
        long_ago = time.time() - 3700
        os.utime(folder.log, (long_ago, long_ago))
        assert re.fullmatch(r"run: running, silent for 1:01:4\d", lines(folder)[0])
        sessions.end_session(folder, sessions.FINISHED, 100, 1.0)
        assert lines(folder)[0] == "run: running, evaluating"
    values = {"reason": "caffe train failed: exit code -6: Unknown layer type: Slize", "step": "training"}
    folder.failure.write_text(json.dumps(values | {"iteration": 50, "time": "2026-11-21T10:00:00+00:00"}))
    assert lines(folder)[0] == "run: failed"
    assert lines(folder)[2:4] == ["  caffe train failed: exit code -6: Unknown layer type:", "  Slize"]
    finish(folder)
    assert lines(folder)[0] == "run: finished"


def test_a_finished_run_has_the_accuracy_of_its_record(folder):
    measured(folder, 0, 50, 100)
    logged = lines(folder)[-1]
    finish(folder)
    values = json.loads(folder.record.read_text())
    folder.record.write_text(json.dumps(values | {"targets": {"usps": {"accuracy": 0.875}}}))
    assert "87.5 %" not in logged and "usps 87.5 %" in lines(folder)[-1]


def test_speed_is_of_this_session_alone(folder):
    measured(folder, 0, 10, 20)
    began = "2026-11-21T10:00:01"
    with folder.locked():
        zone = time.strftime("%z", time.localtime(1795255200))  # glog writes local time
        folder.training.write_text(json.dumps({"seconds": 1, "sessions": [{"started": began + zone, "ended": None}]}))
        follower = Follower(folder.path)
        follower.look()
        assert follower.speed() == pytest.approx(5)
        measured(folder, 30)
        follower.look()
        assert follower.history.iteration == 30 and follower.seconds_left() == pytest.approx(14)


@pytest.mark.parametrize("width", [40, 60, 200])
def test_no_line_is_wider_than_the_terminal(width, folder):
    measured(folder, *range(0, 101, 1))
    folder.failure.write_text(
        json.dumps({"reason": "x" * 300 + " y" * 100, "step": "training", "iteration": 1, "time": "now"})
    )
    long_name = folder.path.rename(folder.path.with_name("mda_" * 30 + "seed0"))
    followers = [Follower(long_name), Follower(folder.path.with_name("later" * 40))]
    for follower in followers:
        follower.look()
    style = Style(width, coloured=False, blocks=BLOCKS)
    shown = [*frame(followers, style, None), *frame(followers * 4, style, 3), brief(followers[0], style)]
    assert max(map(len, shown)) <= width
    assert any("not there yet" in line for line in shown)


def test_many_runs_fit_the_screen_those_that_run_first(tiny_data, tmp_path):
    experiment = make_experiment("digits", "dial", batch_size=4, iterations=100)
    folders = [write_run(experiment, tmp_path / f"run{i}", data=tiny_data) for i in range(6)]
    measured(folders[5], 0, 10)
    with folders[5].locked():
        followers = [Follower(folder.path) for folder in folders]
        for follower in followers:
            follower.look()
        style = Style(60, coloured=False, blocks=BLOCKS)
        shown = frame(followers, style, 4)
        assert len(shown) == 4 and shown[-1] == "6 runs: 5 written, 1 running" and "run5" in shown[2]
        assert "running" in shown[2] and "10/100" in shown[2]
        assert len(frame(followers, style, None)) == 7


def test_curves():
    assert curve([0, 1, 2, 3], 4) == "▁▃▆█" and curve([0, 1, 2, 3], 2) == "▁█" and curve([1, 1], 5) == "▁▁"
    assert curve([0.0, float("nan"), float("inf"), 7.0], 9, ASCII) == ".%" and curve([], 9) == curve([1], 0) == ""
    assert [duration(value) for value in (0, 59.6, 61, 3723)] == ["0:00", "1:00", "1:01", "1:02:03"]


def test_a_log_that_is_written_anew_begins_anew(folder):
    measured(folder, 0, 10, 20)
    follower = Follower(folder.path)
    follower.look()
    with folder.log.open("a") as log:
        log.write("I20261121 10:00:09.0 1 solver.cpp:239] Iteration 30 (4.3 iter/s, 2.3s/10 ite")
    follower.look()
    assert follower.history.iteration == 20, "half a line is none"
    with folder.log.open("a") as log:
        log.write("rs), loss = 0.75\n")
    follower.look()
    assert follower.history.iteration == 30 and follower.terms()["loss"] == 0.75
    folder.log.unlink()
    measured(folder, 0)
    follower.look()
    assert list(follower.history.measurements["train", "loss"]) == [0]


def test_once_says_what_is_there_and_names_what_is_not(folder, tmp_path):
    done = program("watch", "--once", tmp_path)
    assert (done.returncode, done.stdout) == (0, "run: written\n")
    missing = tmp_path / "nothing"
    done = program("watch", "--once", folder.path, missing)
    assert done.returncode == 1 and f"error: {missing}: no experiment.json in it" in done.stderr
    (folder.path / "experiment.json").write_text("{")
    done = program("watch", "--once", folder.path)
    assert done.returncode == 1 and f"error: {folder.path}/experiment.json: not valid JSON" in done.stderr


def start(*arguments: object, **options: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tools.watch", "--interval", "0.1", *map(str, arguments)],
        cwd=ROOT,
        text=True,
        env={**os.environ, "COLUMNS": "60"},
        **options,
    )


def test_without_a_terminal_news_alone_are_printed_until_all_ended(tiny_data, tmp_path):
    path = tmp_path / "run"
    watching = start(path, stdout=subprocess.PIPE)
    ending = threading.Timer(60, watching.kill)  # reading waits for ever otherwise
    ending.start()
    try:
        assert watching.stdout.readline() == "run: not there yet\n"
        experiment = make_experiment("digits", "dial", batch_size=4, iterations=100)
        folder = write_run(experiment, path, data=tiny_data)
        assert [watching.stdout.readline() for _ in range(2)] == ["\n", "run: written\n"]
        with folder.locked():
            assert [watching.stdout.readline() for _ in range(3)][1] == "run: running, waiting for its turn\n"
            measured(folder, 0, 10, 20)
            text = watching.stdout.readline() + watching.stdout.readline()
            assert text == "\nrun: running, waiting for its turn\n"
            finish(folder)
        rest, _ = watching.communicate(timeout=60)
    finally:
        ending.cancel()
        watching.kill()
    assert watching.returncode == 0
    done = "\nrun: finished\n  " + "█" * 30 + "  100/100\n  loss 0.5  loss_class 0.25\n  usps 20.0 %  ▁▅█\n"
    assert rest.endswith(done)


def test_a_failed_run_gives_exit_code_1(folder):
    folder.failure.write_text(json.dumps({"reason": "it broke", "step": "training", "iteration": 1, "time": "now"}))
    done = program("watch", folder.path)
    assert done.returncode == 1 and "run: failed" in done.stdout and "it broke" in done.stdout


def test_in_a_terminal_the_view_is_drawn_over_and_ctrl_c_ends_it(folder):
    measured(folder, 0, 10)
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
    watching = start(folder.path, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, start_new_session=True)
    os.close(theirs)
    seen = b""
    deadline = time.monotonic() + 60
    try:
        while seen.count(b"\x1b[J") < 2:  # drawn over twice
            assert time.monotonic() < deadline and watching.poll() is None
            seen += os.read(ours, 4096)
        watching.send_signal(signal.SIGINT)
        _, errors = watching.communicate(timeout=60)
    finally:
        watching.kill()
        os.close(ours)
    assert watching.returncode == 130 and errors == "interrupted\n"
    text = seen.decode()
    assert "\x1b[33mrun: interrupted\x1b[0m" in text and "\x1b[5F\x1b[J" in text
    assert Path(folder.log).exists()
