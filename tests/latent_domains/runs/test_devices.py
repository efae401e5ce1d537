import argparse
import re
import shutil
import subprocess

import caffe
import pytest

from latent_domains.common.program import ProgramError
from latent_domains.runs import devices
from latent_domains.runs.devices import Devices, gpu_list, gpu_names, on_gpus
from tests.programs import program

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


@pytest.fixture
def two_gpus(monkeypatch):
    """A Caffe built with CUDA and NCCL on a machine with two GPUs, as far as the checks can see."""
    monkeypatch.setattr(devices, "has_cuda", lambda: True)
    monkeypatch.setattr(devices, "gpu_names", lambda: ["GTX 1070", "H200"])
    monkeypatch.setattr(caffe, "has_nccl", lambda: True)


@pytest.mark.parametrize(("text", "gpus"), [("0", (0,)), ("0,1", (0, 1)), ("3,1,2", (3, 1, 2)), ("all", "all")])
def test_lists_of_gpus(text, gpus):
    assert gpu_list(text) == gpus


@pytest.mark.parametrize("text", ["", ",", "0,", "0 1", "0, 1", "-1", "a", "0,all", "ALL", "1.0", "٣", "²"])
def test_a_malformed_list_is_refused(text):
    message = re.escape(f"got {text!r}, expected numbers of GPUs such as 0,1, or all")
    with pytest.raises(argparse.ArgumentTypeError, match=f"^{message}$"):
        gpu_list(text)


@pytest.mark.parametrize("text", ["1,1", "0,2,00"])
def test_a_gpu_named_twice_is_refused(text):
    with pytest.raises(argparse.ArgumentTypeError, match=r"which names GPU [01] twice; expected each once"):
        gpu_list(text)


def test_malformed_options_end_the_program_with_2(tmp_path):
    done = program("train", "--gpus", "0;1", tmp_path)
    assert done.returncode == 2
    assert "argument --gpus: got '0;1', expected numbers of GPUs such as 0,1, or all" in done.stderr
    done = program("train", "--gpus", "0", "--processes", "2", tmp_path)
    assert done.returncode == 2 and "not allowed with argument" in done.stderr


def test_a_caffe_without_cuda_is_told(monkeypatch, tmp_path):
    monkeypatch.setattr(devices, "has_cuda", lambda: False)
    done = program("train", "--gpus", "0,1", tmp_path)
    assert done.returncode == 1
    message = "--gpus 0,1: this Caffe was built without CUDA; expected build_caffe.sh --variant cuda"
    assert done.stderr == f"error: {message}\n"


def test_a_caffe_without_nccl_serves_one_gpu(two_gpus, monkeypatch):
    monkeypatch.setattr(caffe, "has_nccl", lambda: False)
    assert on_gpus((1,)) == Devices(1, (1,))
    for several in ((1, 0), "all"):
        with pytest.raises(ProgramError, match=r"--gpus (1,0|all): this Caffe was built without NCCL, which several"):
            on_gpus(several)


def test_gpus_that_are_not_there_are_told(two_gpus, monkeypatch):
    with pytest.raises(ProgramError, match=r"--gpus 0,2: there is no GPU 2; expected one or more of 0 \(GTX 1070\), 1"):
        on_gpus((0, 2))
    monkeypatch.setattr(devices, "gpu_names", lambda: [])
    for chosen in ((0,), "all"):
        with pytest.raises(ProgramError, match=r"--gpus (0|all): the NVIDIA driver shows no GPU"):
            on_gpus(chosen)


def test_all_are_those_that_the_driver_shows(two_gpus):
    found = on_gpus("all")
    assert found == Devices(2, (0, 1)) == on_gpus((0, 1))
    assert found.uses_nccl and not on_gpus((1,)).uses_nccl and not Devices(2).uses_nccl
    assert (found.label(1), Devices(2).label(1)) == ("GPU 1", "process 1")
    assert (found.mode, Devices(2).mode) == ("GPU", "CPU")
    assert (on_gpus((1, 0)).option, Devices(2).option) == ("--gpus 1,0", "--processes 2")


def test_the_driver_is_asked_for_names(driver):
    assert gpu_names(driver(0)) == ["First GPU", "Second GPU"]


def test_a_driver_without_gpus_or_with_a_fault(driver):
    assert gpu_names(driver(100)) == []
    with pytest.raises(ProgramError, match="does not start: cuInit gave error 999"):
        gpu_names(driver(999))
    with pytest.raises(ProgramError, match=r"no NVIDIA driver here \(libnone.so was not found\)"):
        gpu_names("libnone.so")
