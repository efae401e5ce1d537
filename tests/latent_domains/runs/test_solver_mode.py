import re

import pytest

from latent_domains.common.caffe_process import Threads
from latent_domains.common.program import ProgramError
from latent_domains.experiment.experiment import make_experiment
from latent_domains.runs import preflight, solver_mode
from latent_domains.runs.solver_mode import check_available, choose_mode, mode_of, requested_mode, set_mode
from latent_domains.runs.write import write_run
from latent_domains.training.train import train_all
from tests.programs import program


@pytest.fixture(autouse=True)
def caffe_for_the_cpu(monkeypatch):
    """No variable, and a Caffe without CUDA, whatever this machine's is."""
    monkeypatch.delenv("SOLVER_MODE", raising=False)
    monkeypatch.setattr(solver_mode, "has_cuda", lambda: False)


def small(**options):
    return make_experiment("digits", "dial", batch_size=4, iterations=2, **options)


def test_where_caffe_has_no_cuda_runs_are_written_for_the_cpu(tiny_data, tmp_path):
    assert mode_of(write_run(small(), tmp_path / "digits", data=tiny_data)) == "CPU"
    assert mode_of(write_run(make_experiment("pacs", "mda"), tmp_path / "pacs", data=tiny_data)) == "CPU"


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
    monkeypatch.setattr(solver_mode, "has_cuda", lambda: cuda)
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
    done = program("train", "--threads", "1,1", "--solver-mode", "GPU", folder.path)
    assert done.returncode == 1
    message = r"run was to be computed on the GPU, but this Caffe was built without CUDA: pass --solver-mode CPU"
    assert re.search(message, done.stderr)
    assert not folder.log.exists()
    assert mode_of(folder) == "CPU"  # a refusal changes nothing


def no_driver():
    raise ProgramError("no NVIDIA driver here")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (lambda: ["H200"], None),
        (list, "m.solver asks for it, but the driver shows no GPU: pass --solver-mode CPU (or set SOLVER_MODE=CPU)"),
        (no_driver, "m.solver asks for it, but no NVIDIA driver here: pass --solver-mode CPU (or set SOLVER_MODE=CPU)"),
    ],
)
def test_cuda_without_a_gpu_is_refused(names, message, monkeypatch):
    monkeypatch.setattr(solver_mode, "has_cuda", lambda: True)
    monkeypatch.setattr(solver_mode, "gpu_names", names)
    check_available("CPU", "m.solver asks for it")
    if message is None:
        check_available("GPU", "m.solver asks for it")
    else:
        with pytest.raises(ProgramError, match=f"^{re.escape(message)}$"):
            check_available("GPU", "m.solver asks for it")


def test_a_run_of_a_gpu_is_evaluated_on_the_cpu_if_asked(tiny_data, tmp_path, monkeypatch):
    folder = write_run(small(), tmp_path / "run", data=tiny_data)
    train_all([folder], threads=Threads(1, 1))
    accuracy = folder.read_record()["accuracy"]
    folder.record.unlink()
    set_mode(folder, "GPU")
    done = program("evaluate", "--quiet", folder.path)
    assert done.returncode == 1 and "built without CUDA: pass --solver-mode CPU" in done.stderr
    assert program("evaluate", "--quiet", "--solver-mode", "CPU", folder.path).returncode == 0
    assert folder.read_record()["accuracy"] == accuracy


def test_the_variable_switches_a_run_that_was_written_for_the_gpu(tiny_data, tmp_path, monkeypatch):
    folder = write_run(small(), tmp_path / "run", data=tiny_data, solver_mode="GPU")
    assert mode_of(folder) == "GPU"
    with pytest.raises(ProgramError, match="built without CUDA"):
        preflight.preflight(folder)
    monkeypatch.setenv("SOLVER_MODE", "CPU")
    train_all([folder], threads=Threads(1, 1))
    assert mode_of(folder) == "CPU" and folder.read_training()["solver_mode"] == "CPU"


def test_setting_the_mode_changes_nothing_else(tiny_data, tmp_path):
    folder = write_run(small(), tmp_path / "run", data=tiny_data)
    before = folder.read_solver()
    set_mode(folder, "GPU")
    after = folder.read_solver()
    assert after.solver_mode == after.GPU
    after.solver_mode = before.solver_mode
    assert after == before
