"""Signals and errors reach the processes that a program started."""

import os
import signal
import subprocess
import sys

import pytest

from latent_domains.training.children import Children


@pytest.fixture
def stubborn():
    """A process that ignores Ctrl-C."""
    code = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); print(flush=True); signal.pause()"
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True)
    child.stdout.readline()
    yield child
    child.kill()
    child.communicate()


def test_a_second_ctrl_c_kills_but_not_one_that_comes_at_once(stubborn, monkeypatch, capsys):
    children = Children()
    with children.take_signals(), children.watch(stubborn):
        for number in (signal.SIGINT, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(os.getpid(), number)
        with pytest.raises(subprocess.TimeoutExpired):
            stubborn.wait(0.3)
        assert children.stopping
        monkeypatch.setattr("latent_domains.training.children.SAME_SIGNAL", 0)
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            stubborn.wait(0.3)
        os.kill(os.getpid(), signal.SIGINT)
        assert stubborn.wait(10) == -signal.SIGKILL
    assert capsys.readouterr().err.splitlines() == [
        "stopping: each run writes a snapshot first (Ctrl-C again to kill)",
        "killed",
    ]


def test_an_error_kills_the_child(stubborn):
    with pytest.raises(RuntimeError), Children().watch(stubborn):
        raise RuntimeError
    assert stubborn.wait(10) == -signal.SIGKILL
