"""Real locks, real processes and a driver made for the test; the list of GPUs alone is a stand-in."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from latent_domains.common import gpus
from latent_domains.common.gpus import expect_gpu, gpu_names
from latent_domains.common.program import ROOT, ProgramError
from tests.programs import wait_until

DRIVER = """
#include <string.h>
int cuInit(unsigned flags) { return INIT; }
int cuDeviceGetCount(int *count) { *count = 2; return 0; }
int cuDeviceGet(int *device, int number) { *device = 70 + number; return number < 2 ? 0 : 101; }
int cuDeviceGetName(char *name, int length, int device) {
  strncpy(name, device == 70 ? "First GPU" : "Second GPU", length);
  return 0;
}
"""


@pytest.fixture
def driver(tmp_path):
    """Make a library with the calls of CUDA's driver that are used, whose cuInit returns the given status."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler here to make a driver of")

    def make(status: int) -> str:
        library = tmp_path / f"libdriver{status}.so"
        command = [compiler, "-shared", "-fPIC", f"-DINIT={status}", "-x", "c", "-", "-o", str(library)]
        subprocess.run(command, input=DRIVER, text=True, check=True)
        return str(library)

    return make


@pytest.mark.program
def test_gpu_names_the_driver_is_asked_for_names(driver):
    assert gpu_names(driver(0)) == ["First GPU", "Second GPU"]
    assert gpu_names(driver(100)) == []
    with pytest.raises(ProgramError, match="does not start: cuInit gave error 999"):
        gpu_names(driver(999))
    with pytest.raises(ProgramError, match=r"no NVIDIA driver here \(libnone.so was not found\)"):
        gpu_names("libnone.so")


def test_expect_gpu_a_gpu_that_is_not_there_is_told():
    with pytest.raises(ProgramError, match=r"^--gpu 2: found no GPU 2, expected one of 0 \(GTX 1070\), 1"):
        expect_gpu("--gpu 2", 2, ["GTX 1070", "H200"])
    expect_gpu("--gpu 1", 1, ["GTX 1070", "H200"])


HOLD = """
import os, sys
from pathlib import Path
from latent_domains.common.gpus import choose_gpu
print(choose_gpu(sys.argv[2:], Path(sys.argv[1]), pause=0.05), flush=True)
os.execvp("cat", ["cat"])
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


@pytest.mark.program
def test_gpus_each_process_gets_a_gpu_of_its_own_and_keeps_it_as_another_program_and_the_last_one_waits(tmp_path):
    with hold(tmp_path, "2", "5") as first, hold(tmp_path, "2", "5") as second:
        try:
            assert {first.stdout.readline(), second.stdout.readline()} == {"2\n", "5\n"}
            for held in (first, second):
                wait_until(lambda held=held: Path(f"/proc/{held.pid}/comm").read_text() == "cat\n")
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


@pytest.mark.parametrize(
    ("visible", "expected"), [(None, ["0", "1", "2"]), ("", ["0", "1", "2"]), ("4,6,7", ["4", "6", "7"])]
)
def test_visible_gpus_the_gpus_are_those_that_cuda_shows(visible, expected, monkeypatch):
    monkeypatch.setattr(gpus, "gpu_names", lambda: ["a GPU"] * 3)
    monkeypatch.delenv(gpus.VISIBLE, raising=False)
    if visible is not None:
        monkeypatch.setenv(gpus.VISIBLE, visible)
    assert gpus.visible_gpus() == expected
