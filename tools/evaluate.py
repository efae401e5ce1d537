"""Evaluate a trained run at its last iteration, never at its best, and write RUN/record.json.

The record holds the setting, versions, hardware and times, the accuracy on the target's test images, the last values
of the loss terms and, where a branch predicts domains, how it used them.
"""

import argparse
import json
import os
from pathlib import Path
from typing import Any

import caffe
import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from tools.arguments import natural
from tools.caffe_log import curves
from tools.domain_usage import domain_usage
from tools.files import write_text
from tools.images import batches as read_batches
from tools.lmdb_io import count
from tools.parallel.devices import gpu_names
from tools.preflight import check_data, check_mode, check_nets
from tools.program import ROOT, ProgramError, run
from tools.run_folder import RunFolder, Snapshot
from tools.solver_mode import add_mode_option, mode_of, requested_mode
from tools.versions import commit, hardware, versions


def evaluate(
    folder: RunFolder, *, quiet: bool = False, solver_mode: str | None = None, gpu: int | None = None
) -> dict[str, Any]:
    """Evaluate the last iteration of ``folder`` and return its record.

    ``solver_mode`` is GPU or CPU; None takes that of the environment, if any, or the run's. ``gpu`` is the one to use
    in GPU mode, by default the first.
    Raises ProgramError if the run has not reached its last iteration, or its nets or data are not as they should be.
    """
    snapshot = last_snapshot(folder)
    check_nets(folder)
    check_data(folder)  # Caffe would abort
    os.chdir(ROOT)  # the nets name their LMDBs relative to it
    experiment = folder.experiment
    mode = requested_mode(solver_mode) or mode_of(folder)
    check_mode(folder, mode)
    if mode == "GPU":
        if gpu is not None:
            caffe.set_device(gpu)  # first: whatever comes before would take memory of GPU 0
        caffe.set_mode_gpu()
    results = {target: target_accuracy(folder, snapshot, target) for target in experiment.targets}
    images = sum(images for _, images in results.values())
    usage = source_probabilities(folder, snapshot, quiet=quiet)
    target_usage = target_probabilities(folder, snapshot, quiet=quiet)
    log = folder.log.read_text(errors="replace").splitlines() if folder.log.exists() else []
    return {
        "experiment": experiment.to_json(),
        "iteration": snapshot.iteration,
        "accuracy": sum(correct for correct, _ in results.values()) / images,
        "test_images": images,
        "targets": {
            target: {"accuracy": correct / images, "test_images": images}
            for target, (correct, images) in results.items()
        },
        "domain_usage": domain_usage(usage).to_json() if usage else None,
        "target_domain_usage": domain_usage(target_usage).to_json() if target_usage else None,
        "last_values": {
            name: values[max(values)] for (phase, name), values in curves(log).items() if phase == "train"
        },
        "training": folder.read_training(),
        "commit": commit(),
        "versions": versions(),
        "hardware": hardware(mode, gpu_names()[gpu or 0] if mode == "GPU" else None),
    }


def summary(folder: RunFolder, record: dict[str, Any]) -> str:
    """The record's accuracy in words, that of each target too where there are several."""
    text = f"{100 * record['accuracy']:.2f} % on {folder.experiment.target}"
    if len(folder.experiment.targets) > 1:
        each = ", ".join(f"{target} {100 * values['accuracy']:.2f} %" for target, values in record["targets"].items())
        text += f" ({each})"
    return text


def last_snapshot(folder: RunFolder) -> Snapshot:
    """The snapshot of the experiment's last iteration. Raises ProgramError if there is none yet."""
    snapshot = folder.latest_snapshot()
    if snapshot is None or snapshot.iteration < folder.experiment.iterations:
        reached = snapshot.iteration if snapshot else 0
        raise ProgramError(
            f"{folder.path}: trained to iteration {reached} of {folder.experiment.iterations}: "
            f"train it first (python -m tools.train --resume {folder.path})"
        )
    return snapshot


def target_accuracy(folder: RunFolder, snapshot: Snapshot, target: str) -> tuple[int, int]:
    """How many of a target's test images are classified correctly, each counted once, and how many there are."""
    batch_size, batches = folder.test_batches()[target]
    net = _load(folder.test_nets[target], snapshot)
    name = folder.experiment.accuracy_name(target)
    correct = 0.0
    for _ in range(batches):
        correct += float(net.forward()[name]) * batch_size
    return round(correct), batch_size * batches


def source_probabilities(
    folder: RunFolder, snapshot: Snapshot, *, limit: int | None = None, quiet: bool = False
) -> dict[str, NDArray[np.float32]]:
    """The branch's probabilities (n×k) for the first ``limit`` training images of each source.

    Empty if no branch predicts them. An undivided source is looked at by its domains where their LMDBs are there too.
    """
    experiment = folder.experiment
    if not experiment.has_branch:
        return {}
    lmdbs = {source: folder.data / experiment.data.train_lmdb(source) for source in experiment.sources}
    if experiment.undivided and not all((lmdb / "data.mdb").is_file() for lmdb in lmdbs.values()):
        lmdbs = {part: folder.train_lmdbs[part] for part in experiment.source_parts}
    return _domain_probabilities(folder, snapshot, "domain_prob", lmdbs, limit, quiet)


def target_probabilities(
    folder: RunFolder, snapshot: Snapshot, *, limit: int | None = None, quiet: bool = False
) -> dict[str, NDArray[np.float32]]:
    """The targets' branch's probabilities (n×k_target) for the first ``limit`` training images of each target.

    Empty if no branch predicts them.
    """
    experiment = folder.experiment
    if not experiment.has_target_branch:
        return {}
    lmdbs = {target: folder.train_lmdbs[target] for target in experiment.targets}
    return _domain_probabilities(folder, snapshot, "target_domain_prob", lmdbs, limit, quiet)


def _domain_probabilities(
    folder: RunFolder, snapshot: Snapshot, blob: str, lmdbs: dict[str, Path], limit: int | None, quiet: bool
) -> dict[str, NDArray[np.float32]]:
    data = folder.experiment.data
    limit = limit or data.usage_images
    net = _load(folder.net("domains"), snapshot)
    found = {}
    for domain, lmdb in lmdbs.items():
        rows = []
        with tqdm(desc=f"domains of {domain}", total=min(limit, count(lmdb)), unit="img", disable=quiet) as bar:
            for inputs, _ in read_batches(lmdb, data, data.test_batch_limit, limit):
                net.blobs["data"].reshape(*inputs.shape)
                net.blobs["data"].data[...] = inputs
                rows.append(net.forward()[blob].copy())
                bar.update(len(inputs))
        found[domain] = np.concatenate(rows)
    return found


def _load(net: Path, snapshot: Snapshot) -> caffe.Net:
    return caffe.Net(str(net.resolve()), caffe.TEST, weights=str(snapshot.model.resolve()))


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.evaluate", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="run folder, trained to its last iteration")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    parser.add_argument("--gpu", type=natural, metavar="N", help="the GPU to use in GPU mode (default: 0)")
    add_mode_option(parser)
    options = parser.parse_args()
    folder = RunFolder.load(options.run.resolve())
    record = evaluate(folder, quiet=options.quiet, solver_mode=options.solver_mode, gpu=options.gpu)
    write_text(folder.record, json.dumps(record, indent=2) + "\n")
    print(f"{options.run}: {summary(folder, record)}")
    return 0


if __name__ == "__main__":
    run(main)
