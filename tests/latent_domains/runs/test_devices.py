import argparse
import re
from unittest import mock

import caffe
import pytest

from latent_domains.common import gpus
from latent_domains.common.program import ProgramError
from latent_domains.experiment.experiment import make_experiment
from latent_domains.runs import devices, preflight
from latent_domains.runs.devices import (
    Devices,
    check_available,
    choose_mode,
    gpu_list,
    mode_of,
    on_gpus,
    requested_mode,
)
from latent_domains.runs.write import write_run
from latent_domains.training.train import train_all
from tests.programs import program


@pytest.fixture
def two_gpus(monkeypatch):
    """A Caffe built with CUDA and NCCL on a machine with two GPUs, as far as the checks can see."""
    monkeypatch.setattr(devices, "has_cuda", lambda: True)
    monkeypatch.setattr(devices, "gpu_names", lambda: ["GTX 1070", "H200"])
    monkeypatch.setattr(caffe, "has_nccl", lambda: True)


@pytest.mark.parametrize(("text", "gpus"), [("0", (0,)), ("0,1", (0, 1)), ("3,1,2", (3, 1, 2)), ("all", "all")])
def test_lists_of_gpus(text, gpus):
    assert gpu_list(text) == gpus


@pytest.mark.parametrize("text", ["", "0,", "-1", "0,all", "²", "1,1"])
def test_a_malformed_list_is_refused(text):
    with pytest.raises(argparse.ArgumentTypeError, match=rf"^got {text!r}.* expected "):
        gpu_list(text)


def test_a_caffe_without_cuda_is_told(monkeypatch, tmp_path):
    monkeypatch.setattr(devices, "has_cuda", lambda: False)
    done = program("train", "--gpus", "0,1", tmp_path)
    assert done.returncode == 1
    message = "--gpus 0,1: this Caffe was built without CUDA; expected one with it (docs/gpu.md)"
    assert done.stderr == f"error: {message}\n"


def test_a_caffe_without_nccl_serves_one_gpu(two_gpus, monkeypatch):
    monkeypatch.setattr(caffe, "has_nccl", lambda: False)
    assert on_gpus((1,)) == Devices(1, (1,))
    for several in ((1, 0), "all"):
        with pytest.raises(ProgramError, match=r"--gpus (1,0|all): this Caffe was built without NCCL, which several"):
            on_gpus(several)


def test_gpus_that_are_not_there_are_told(two_gpus, monkeypatch):
    with pytest.raises(ProgramError, match=r"--gpus 0,2: there is no GPU 2; expected any of 0 \(GTX 1070\), 1"):
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


@pytest.fixture(autouse=True)
def caffe_for_the_cpu(monkeypatch):
    """No variable, and a Caffe without CUDA, whatever this machine's is."""
    monkeypatch.delenv("SOLVER_MODE", raising=False)
    for module in (devices, gpus):
        monkeypatch.setattr(module, "has_cuda", lambda: False)


def small(**options):
    return make_experiment("digits", "dial", batch_size=4, iterations=2, **options)


@pytest.mark.parametrize(
    ("option", "variable", "cuda", "expected"),
    [
        (None, None, True, "GPU"),
        (None, None, False, "CPU"),
        (None, "CPU", True, "CPU"),
        ("GPU", "CPU", True, "GPU"),
        ("GPU", None, False, "GPU"),  # asked for, so it is written; preflight says that it cannot be
        (None, "GPU", False, "GPU"),
        (None, "", True, "GPU"),
    ],
)
def test_option_before_variable_before_recipe(option, variable, cuda, expected, monkeypatch):
    monkeypatch.setattr(devices, "has_cuda", lambda: cuda)
    if variable is not None:
        monkeypatch.setenv("SOLVER_MODE", variable)
    assert choose_mode(option, "GPU") == expected
    assert choose_mode(option, "CPU") == (option or variable or "CPU")


def test_a_variable_that_names_no_mode_is_refused(monkeypatch):
    monkeypatch.setenv("SOLVER_MODE", "gpu")
    with pytest.raises(ProgramError, match="environment variable SOLVER_MODE: got 'gpu', expected GPU or CPU"):
        requested_mode(None)


@pytest.mark.program
def test_gpu_mode_without_cuda_is_refused_before_training(tiny_data, tmp_path):
    folder = write_run(small(), tmp_path / "run", data=tiny_data)
    done = program("train", "--threads", "1", "--solver-mode", "GPU", folder.path)
    assert done.returncode == 1
    message = r"run was to be computed on the GPU, but this Caffe was built without CUDA: pass --solver-mode CPU"
    assert re.search(message, done.stderr)
    assert not folder.log.exists()
    assert mode_of(folder) == "CPU"  # a refusal changes nothing


def test_cuda_without_a_gpu_is_refused(monkeypatch):
    monkeypatch.setattr(gpus, "has_cuda", lambda: True)
    monkeypatch.setattr(gpus, "gpu_names", lambda: ["H200"])
    check_available("GPU", "m.solver asks for it")
    for names, reason in (([], "the driver shows no GPU"), (ProgramError("no driver"), "no driver")):
        monkeypatch.setattr(gpus, "gpu_names", mock.Mock(side_effect=[names]))
        check_available("CPU", "m.solver asks for it")
        with pytest.raises(
            ProgramError, match=rf"^m.solver asks for it, but {reason}: pass --solver-mode CPU \(or set"
        ):
            check_available("GPU", "m.solver asks for it")


def test_the_variable_switches_a_run_that_was_written_for_the_gpu(tiny_data, tmp_path, monkeypatch):
    folder = write_run(small(), tmp_path / "run", data=tiny_data, solver_mode="GPU")
    assert mode_of(folder) == "GPU"
    with pytest.raises(ProgramError, match="built without CUDA"):
        preflight.preflight(folder)
    monkeypatch.setenv("SOLVER_MODE", "CPU")
    train_all([folder], threads=1)
    assert mode_of(folder) == "CPU" and folder.read_training().solver_mode == "CPU"
