"""Groups of small processes that fail in every way there is."""

import os
import signal
import subprocess
import sys
import time

import pytest

from latent_domains.training import group
from latent_domains.training.group import Children, Group
from latent_domains.training.worker import LOST

FOREVER = "import time; print('here', flush=True); time.sleep(600)"


def started(*programs: str) -> Group:
    def start(code: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-S", "-c", code], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    return Group({f"GPU {rank}": start(code) for rank, code in enumerate(programs)})


def run(*programs: str) -> tuple[Group, list[str]]:
    began = time.monotonic()
    with started(*programs) as found:
        lines = list(found.lines())
    assert time.monotonic() - began < 30
    assert all(process.poll() is not None and process.stdout.closed for process in found.members.values())
    return found, lines


def test_the_first_ones_log_is_left_as_it_is():
    found, lines = run("print('a'); print('b')", "print('c')")
    assert found.failure is None
    assert [line for line in lines if not line.startswith("[")] == ["a\n", "b\n"]
    assert [line for line in lines if line.startswith("[")] == ["[GPU 1] c\n"]


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_one_that_fails_ends_all_and_is_named(failing):
    programs = [FOREVER] * 3
    programs[failing] = "raise ValueError('w has 4 columns')"
    found, _ = run(*programs)
    assert found.failure == f"GPU {failing} failed: exit code 1: ValueError: w has 4 columns"


def test_a_killed_one_is_named():
    found, _ = run(FOREVER, "import os; os.kill(os.getpid(), 9)")
    assert found.failure == "GPU 1 failed: killed by SIGKILL, perhaps for its memory"


def test_who_only_lost_another_is_not_to_blame():
    """The first notices at once that the second is gone, which takes its time to end."""
    fault = "F1121 03:30:28.3 99 syncedmem.cpp:71] Check failed: error == cudaSuccess (2 vs. 0)  out of memory"
    late = f"import time; time.sleep(0.5); print({fault!r}); raise SystemExit(1)"
    found, _ = run(f"raise SystemExit({LOST})", late)
    assert found.failure == "GPU 1 failed: exit code 1: " + fault.partition("] ")[2]


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
    monkeypatch.setattr(group, "SAME_SIGNAL", 60)
    children = Children()
    with children.take_signals(), children.watch([stubborn]):
        for number in (signal.SIGINT, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(os.getpid(), number)
        with pytest.raises(subprocess.TimeoutExpired):
            stubborn.wait(0.3)
        assert children.stopping
        monkeypatch.setattr(group, "SAME_SIGNAL", 0)
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            stubborn.wait(0.3)
        os.kill(os.getpid(), signal.SIGINT)
        assert stubborn.wait(10) == -signal.SIGKILL
    assert capsys.readouterr().err.splitlines() == [
        "stopping: each run writes a snapshot first (Ctrl-C again to kill)",
        "killed",
    ]
