"""Small processes that end in every way there is."""

import os
import signal
import subprocess
import sys
import time

import pytest

from latent_domains.training import child
from latent_domains.training.child import Child, Children

pytestmark = pytest.mark.program

FOREVER = "import time; print('here', flush=True); time.sleep(600)"


def started(code: str) -> Child:
    command = [sys.executable, "-S", "-c", code]
    return Child("it", subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))


def run(code: str) -> tuple[Child, list[str]]:
    with started(code) as found:
        lines = list(found.lines())
    assert found.process.poll() is not None and found.process.stdout.closed
    return found, lines


def test_lines_come_as_they_are_written():
    found, lines = run("print('a'); print('b')")
    assert found.failure is None and lines == ["a\n", "b\n"]
    with started(FOREVER) as found:
        lines = found.lines()
        assert next(lines) == "here\n" and found.process.poll() is None
        found.process.kill()
        assert list(lines) == []


@pytest.mark.parametrize(
    ("code", "failure"),
    [
        ("raise ValueError('w has 4 columns')", "it failed: exit code 1: ValueError: w has 4 columns"),
        ("import os; os.kill(os.getpid(), 9)", "it failed: killed by SIGKILL, perhaps for its memory"),
    ],
)
def test_child_one_that_fails_is_named_with_the_reason(code, failure):
    found, _ = run(code)
    assert found.failure == failure


def test_child_an_error_in_the_block_ends_it():
    began = time.monotonic()
    with pytest.raises(OSError, match="the disk is full"), started(FOREVER) as found:
        for line in found.lines():
            assert line == "here\n"
            raise OSError("the disk is full")
    assert time.monotonic() - began < 30
    assert found.process.returncode == -signal.SIGKILL and found.process.stdout.closed


@pytest.fixture
def stubborn():
    """A process that ignores Ctrl-C."""
    code = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); print(flush=True); signal.pause()"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True)
    process.stdout.readline()
    yield process
    process.kill()
    process.communicate()


def test_children_a_second_ctrl_c_kills_but_not_one_that_comes_at_once(stubborn, monkeypatch, capsys):
    monkeypatch.setattr(child, "SAME_SIGNAL", 60)
    children = Children()
    with children.take_signals(), children.watch(stubborn):
        for number in (signal.SIGINT, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(os.getpid(), number)
        with pytest.raises(subprocess.TimeoutExpired):
            stubborn.wait(0.3)
        assert children.stopping
        monkeypatch.setattr(child, "SAME_SIGNAL", 0)
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            stubborn.wait(0.3)
        os.kill(os.getpid(), signal.SIGINT)
        assert stubborn.wait(10) == -signal.SIGKILL
    assert capsys.readouterr().err.splitlines() == [
        "stopping: each run writes a snapshot first (Ctrl-C again to kill)",
        "killed",
    ]
