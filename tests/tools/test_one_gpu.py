"""One GPU a command: real locks and real processes; the list of GPUs alone is a stand-in."""

import os
import subprocess
import sys
import time

import pytest

from latent_domains.common.program import ROOT
from latent_domains.runs import devices
from tests.programs import child

HOLD = """
import sys, time
from pathlib import Path
from tools.one_gpu import choose_gpu
print(choose_gpu(sys.argv[2:], Path(sys.argv[1]), pause=0.05), flush=True)
sys.stdin.read()
"""


def hold(locks, *gpus: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", HOLD, str(locks), *gpus],
        cwd=ROOT,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_each_process_gets_a_gpu_of_its_own_and_the_last_one_waits(tmp_path):
    with hold(tmp_path, "2", "5") as first, hold(tmp_path, "2", "5") as second:
        try:
            assert {first.stdout.readline(), second.stdout.readline()} == {"2\n", "5\n"}
            with hold(tmp_path, "2", "5") as third:
                try:
                    assert third.stderr.readline() == "all of the GPUs 2, 5 are in use: waiting for one\n"
                    first.kill()  # its lock ends with it
                    freed = third.stdout.readline()
                finally:
                    third.kill()
        finally:
            second.kill()
            first.kill()
    assert freed in ("2\n", "5\n")


def test_the_lock_is_kept_by_the_command_that_replaces_the_process(tmp_path):
    keep = f"""
import os
from pathlib import Path
from tools.one_gpu import choose_gpu
choose_gpu(["0"], Path({str(tmp_path)!r}))
os.execvp("sleep", ["sleep", "60"])
"""
    with subprocess.Popen([sys.executable, "-c", keep], cwd=ROOT) as process:
        try:
            deadline = time.monotonic() + 60
            while "sleep" not in (ROOT / f"/proc/{process.pid}/comm").read_text():
                assert time.monotonic() < deadline
                time.sleep(0.05)
            with hold(tmp_path, "0") as other:
                try:
                    assert "waiting for one" in other.stderr.readline()
                finally:
                    other.kill()
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("visible", "expected"), [(None, ["0", "1", "2"]), ("", ["0", "1", "2"]), ("4,6,7", ["4", "6", "7"])]
)
def test_the_gpus_are_those_that_cuda_shows(visible, expected, monkeypatch):
    monkeypatch.setattr(devices, "gpu_names", lambda: ["a GPU"] * 3)
    monkeypatch.delenv(devices.VISIBLE, raising=False)
    if visible is not None:
        monkeypatch.setenv(devices.VISIBLE, visible)
    assert devices.visible_gpus() == expected


def test_a_command_is_run_with_its_options_and_exit_code():
    done = child("one_gpu", sys.executable, "-c", "import sys; print(sys.argv[1:]); sys.exit(3)", "--help", "x")
    assert (done.returncode, done.stdout) == (3, "['--help', 'x']\n")


def test_a_command_that_is_none_is_named():
    done = child("one_gpu", "no-such-command", env={"PATH": os.environ["PATH"]})
    assert (done.returncode, done.stderr) == (1, "error: no-such-command: cannot be run: No such file or directory\n")
    assert child("one_gpu").returncode == 2
