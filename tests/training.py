"""Training, in tests: runs are evaluated in the tests' own process, which has imported Caffe already."""

import ctypes
import threading
from typing import Any

from latent_domains.common.files import json_text, write_text
from latent_domains.runs.devices import mode_of
from latent_domains.runs.evaluate import evaluate
from latent_domains.runs.run_folder import RunFolder
from latent_domains.training.child import Children
from latent_domains.training.train import evaluate_apart, train_all

_one_evaluation = threading.Lock()


def train_here(*runs: RunFolder, **options: Any) -> None:
    """Train runs with one thread each, and evaluate them; ``options`` are those of ``train_all``."""
    train_all(runs, **{"threads": 1, "evaluate": _evaluate_here, **options})


def _evaluate_here(folder: RunFolder, threads: int, children: Children) -> None:
    if mode_of(folder) == "GPU":
        evaluate_apart(folder, threads, children)
        return
    with _one_evaluation:
        ctypes.CDLL("libgomp.so.1").omp_set_num_threads(threads)  # of this thread alone
        folder = RunFolder.load(folder.path)
        record = evaluate(folder, solver_mode="CPU")
        write_text(folder.record_file, json_text(record.to_json()))
