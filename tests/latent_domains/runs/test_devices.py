from pathlib import Path
from unittest import mock

import caffe
import pytest

from latent_domains.common import gpus
from latent_domains.common.program import ProgramError
from latent_domains.experiment.experiment import make_experiment
from latent_domains.runs import devices, preflight
from latent_domains.runs.devices import check_available, choose_mode, mode_of, requested_mode
from latent_domains.runs.write import write_run
from tests.training import train_here


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
def test_choose_mode_option_before_variable_before_recipe(option, variable, cuda, expected, monkeypatch):
    monkeypatch.setattr(devices, "has_cuda", lambda: cuda)
    if variable is not None:
        monkeypatch.setenv("SOLVER_MODE", variable)
    assert choose_mode(option, "GPU") == expected
    assert choose_mode(option, "CPU") == (option or variable or "CPU")


def test_requested_mode_a_variable_that_names_no_mode_is_refused(monkeypatch):
    monkeypatch.setenv("SOLVER_MODE", "gpu")
    with pytest.raises(ProgramError, match="environment variable SOLVER_MODE: got 'gpu', expected GPU or CPU"):
        requested_mode(None)


def test_devices_a_build_for_gpus_is_told_by_what_it_links(monkeypatch):
    monkeypatch.undo()
    key = Path(caffe.__file__).parents[2] / "share" / "Caffe" / "build-key"
    if not key.is_file():
        pytest.skip("this Caffe was not built by docker/build_caffe.sh")
    assert gpus.has_cuda() == ("variant: cuda" in key.read_text())


def test_check_available_cuda_without_a_gpu_is_refused(monkeypatch):
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


@pytest.mark.program
def test_mode_of_the_variable_switches_a_run_that_was_written_for_the_gpu(tiny_data, tmp_path, monkeypatch):
    folder = write_run(small(), tmp_path / "run", data=tiny_data, solver_mode="GPU")
    assert mode_of(folder) == "GPU"
    with pytest.raises(ProgramError, match="built without CUDA"):
        preflight.preflight(folder)
    monkeypatch.setenv("SOLVER_MODE", "CPU")
    train_here(folder)
    assert mode_of(folder) == "CPU" and folder.read_training().solver_mode == "CPU"
