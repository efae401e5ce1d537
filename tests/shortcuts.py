"""What tests do otherwise than users: they start fewer processes, each of which would import Caffe first."""

import ctypes
import sys
import threading

import pytest

from latent_domains.common.files import json_text, write_text
from latent_domains.models import model
from latent_domains.runs.devices import mode_of
from latent_domains.runs.evaluate import evaluate
from latent_domains.runs.run_folder import RunFolder
from latent_domains.training import train
from latent_domains.training.child import Children
from tests import trial

_evaluate_apart = train._evaluate_apart
_check_loads = model.check_loads
_one_evaluation = threading.Lock()


@pytest.fixture(scope="session", autouse=True)
def shortcuts() -> None:
    """Evaluate in this process, and try nets in forked ones."""
    train._evaluate_apart = _evaluate_here
    for name, module in list(sys.modules.items()):
        if name.startswith("latent_domains.") and getattr(module, "check_loads", None) is _check_loads:
            module.check_loads = trial.check_loads


@pytest.fixture
def evaluation_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ``train_all`` evaluate in a process of its own, as it does for users."""
    monkeypatch.setattr(train, "_evaluate_apart", _evaluate_apart)


def _evaluate_here(folder: RunFolder, threads: int, children: Children) -> None:
    if mode_of(folder) == "GPU":
        _evaluate_apart(folder, threads, children)
        return
    with _one_evaluation:
        ctypes.CDLL("libgomp.so.1").omp_set_num_threads(threads)  # of this thread alone
        folder = RunFolder.load(folder.path)
        record = evaluate(folder, solver_mode="CPU")
        write_text(folder.record, json_text(record.to_json()))
