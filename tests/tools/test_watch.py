"""The view of runs: what it says of each state, how it follows a run and when it ends."""

import json
import sys
import time
from contextlib import ExitStack
from unittest import mock

import pytest

from latent_domains.common.files import write_text
from latent_domains.experiment.experiment import make_experiment
from latent_domains.runs.run_folder import RunFolder
from latent_domains.runs.watch import screen, view, view_runs, watch
from latent_domains.runs.write import write_run
from tests.programs import program

LOG = """\
I20261121 10:00:01.0 1 solver.cpp:347] Iteration {iteration}, Testing net (#0)
I20261121 10:00:01.0 1 solver.cpp:414]     Test net output #0: accuracy = {accuracy}
I20261121 10:00:01.0 1 solver.cpp:239] Iteration {iteration} (4.3 iter/s, 2.3s/10 iters), loss = 0.5
I20261121 10:00:01.0 1 solver.cpp:258]     Train net output #0: loss_class = 0.25 (* 1 = 0.25 loss)
"""


def measured(folder: RunFolder, *iterations: int) -> None:
    """Continue the run's log with an accuracy that grows."""
    with folder.log.open("a") as log:
        for iteration in iterations:
            log.write(LOG.format(iteration=iteration, accuracy=iteration / 100))


def small() -> object:
    return make_experiment("digits", "dial", batch_size=4, iterations=100)


@pytest.fixture
def folder(tiny_data, tmp_path) -> RunFolder:
    return write_run(small(), tmp_path / "run", data=tiny_data)


def finish(folder: RunFolder, accuracy: float) -> None:
    """As an evaluated run: what is looked at of its record."""
    targets = {"usps": {"accuracy": accuracy}}
    values = {"experiment": folder.experiment.to_json(), "accuracy": accuracy, "targets": targets}
    write_text(folder.record_file, json.dumps(values | {"domain_usage": None}))  # at once, since it is being watched


def fail(folder: RunFolder, reason: str) -> None:
    failure = {"reason": reason, "step": "training", "iteration": 50, "time": "2026-11-21T10:00:00+00:00"}
    folder.failure.write_text(json.dumps(failure))


def test_watch_every_state_is_told(folder):
    assert view(folder.path).line == "run: written"
    measured(folder, *range(0, 51, 10))
    ends = "loss 0.5  usps 50.0 %  begins anew: no snapshot yet"
    assert view(folder.path).line == f"run: interrupted  50/100  {ends}"
    with folder.locked():
        began = [{"started": "2026-11-20T10:00:00+00:00", "ended": None}]
        folder.training.write_text(json.dumps({"seconds": 1, "sessions": began}))
        assert view(folder.path).line == "run: running  50/100  4.3 it/s  0:00:12 left  loss 0.5  usps 50.0 %"
        folder.training.write_text(json.dumps({"seconds": 1, "sessions": [began[0] | {"ended": "finished"}]}))
        assert view(folder.path).line.endswith("evaluating")
    fail(folder, "it\x1b[2J\nbroke")
    assert view(folder.path).line == "run: failed  50/100  loss 0.5  usps 50.0 %  it\\x1b[2J broke"
    finish(folder, 0.875)  # the log's last test comes after one more pass of the training net
    assert view(folder.path).line == "run: finished  100/100  usps 87.5 %"


def test_watch_many_runs_fit_the_screen_those_that_run_first(tiny_data, tmp_path):
    folders = [write_run(small(), tmp_path / f"run{i}", data=tiny_data) for i in range(6)]
    measured(folders[5], 0, 10)
    with folders[5].locked():
        views = view_runs([tmp_path, tmp_path / "later"], missing_ok=True)
        lines = screen(views, 40, 4)
        assert len(lines) == 4 and lines[0].startswith("run5: running  10/100") and lines[0].endswith("…")
        assert lines[3] == "7 runs: 1 running, 5 written, 1 not the…"
        assert max(map(len, lines)) == 40 and len(screen(views, 40, 7)) == 7


def test_watch_once_says_what_is_there_and_names_what_is_not(folder, tmp_path):
    done = program("watch", "--once", tmp_path)
    assert (done.returncode, done.stdout) == (0, "run: written\n")
    missing = tmp_path / "nothing"
    done = program("watch", "--once", folder.path, missing)
    assert done.returncode == 1 and f"error: {missing}: no experiment.json in it" in done.stderr
    fail(folder, "it broke")
    done = program("watch", folder.path)  # which has ended
    assert (done.returncode, done.stdout) == (1, "run: failed  0/100  it broke\n")
    (folder.path / "experiment.json").write_text("{")
    done = program("watch", "--once", folder.path)
    assert done.returncode == 1 and f"error: {folder.path}/experiment.json: not valid JSON" in done.stderr


def test_watch_without_a_terminal_news_alone_are_printed_until_all_ended(tiny_data, tmp_path, monkeypatch, capsys):
    path, held = tmp_path / "run", ExitStack()
    steps = iter(
        [
            lambda: write_run(small(), path, data=tiny_data),
            lambda: held.enter_context(RunFolder.load(path).locked()),
            lambda: None,  # nothing new
            lambda: finish(RunFolder.load(path), 0.2),
        ]
    )
    monkeypatch.setattr(time, "sleep", lambda _: next(steps)())
    with held:
        assert watch([path], once=False, interval=1) == 0
    assert capsys.readouterr().out.split("\n\n") == [
        f"{path}: not there yet",
        "run: written",
        "run: running  0/100  waiting for its turn",
        "run: finished  100/100  usps 20.0 %\n",
    ]


def test_watch_in_a_terminal_the_view_is_drawn_over_until_ctrl_c(folder, monkeypatch, capsys):
    measured(folder, 0, 10)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(time, "sleep", mock.Mock(side_effect=[None, KeyboardInterrupt]))
    with pytest.raises(KeyboardInterrupt):
        watch([folder.path], once=False, interval=1)
    first, again = capsys.readouterr().out.split("\x1b[1F\x1b[J")
    assert first == again and first.startswith("run: interrupted  10/100")
