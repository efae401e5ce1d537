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

from tools.caffe_log import curves
from tools.domain_usage import domain_usage
from tools.files import write_text
from tools.lmdb_io import read_images
from tools.preflight import check_data, check_nets
from tools.program import ROOT, ProgramError, run
from tools.run_folder import RunFolder, Snapshot
from tools.versions import commit, hardware, versions

USAGE_IMAGES = 10_000
"""Images of each source on which domain usage is measured: the first ones of its shuffled LMDB."""


def evaluate(folder: RunFolder, *, quiet: bool = False) -> dict[str, Any]:
    """Evaluate the last iteration of ``folder`` and return its record.

    Raises ProgramError if the run has not reached its last iteration, or its nets or data are not as they should be.
    """
    snapshot = last_snapshot(folder)
    check_nets(folder)
    check_data(folder)  # Caffe would abort
    os.chdir(ROOT)  # the nets name their LMDBs relative to it
    experiment = folder.experiment
    accuracy, images = target_accuracy(folder, snapshot)
    usage = None
    if experiment.has_branch:
        usage = domain_usage(domain_probabilities(folder, snapshot, quiet=quiet)).to_json()
    log = folder.log.read_text(errors="replace").splitlines() if folder.log.exists() else []
    return {
        "experiment": experiment.to_json(),
        "iteration": snapshot.iteration,
        "accuracy": accuracy,
        "test_images": images,
        "domain_usage": usage,
        "last_values": {
            name: values[max(values)] for (phase, name), values in curves(log).items() if phase == "train"
        },
        "training": folder.read_training(),
        "commit": commit(),
        "versions": versions(),
        "hardware": hardware(),
    }


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


def target_accuracy(folder: RunFolder, snapshot: Snapshot) -> tuple[float, int]:
    """Share of the target's test images classified correctly, each counted once, and their number."""
    batch_size, batches = folder.test_batches()
    net = caffe.Net(str(folder.net("test").resolve()), caffe.TEST, weights=str(snapshot.model.resolve()))
    correct = 0.0
    for _ in range(batches):
        correct += float(net.forward()["accuracy"]) * batch_size
    return round(correct) / (batch_size * batches), batch_size * batches


def domain_probabilities(
    folder: RunFolder, snapshot: Snapshot, *, limit: int = USAGE_IMAGES, quiet: bool = False
) -> dict[str, NDArray[np.float32]]:
    """The branch's probabilities (n×k) for the first ``limit`` training images of each source."""
    data = folder.experiment.data
    net = caffe.Net(str(folder.net("domains").resolve()), caffe.TEST, weights=str(snapshot.model.resolve()))
    found = {}
    for source in folder.experiment.sources:
        images, _ = read_images(folder.train_lmdbs[source], limit)
        rows = []
        for start in tqdm(range(0, len(images), 500), desc=f"domains of {source}", disable=quiet):
            batch = images[start : start + 500]
            net.blobs["data"].reshape(*batch.shape)
            net.blobs["data"].data[...] = (batch.astype(np.float32) - data.mean) * data.scale
            rows.append(net.forward()["domain_prob"].copy())
        found[source] = np.concatenate(rows)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.evaluate", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="run folder, trained to its last iteration")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    options = parser.parse_args()
    folder = RunFolder.load(options.run.resolve())
    record = evaluate(folder, quiet=options.quiet)
    write_text(folder.record, json.dumps(record, indent=2) + "\n")
    print(f"{options.run}: {100 * record['accuracy']:.2f} % on {folder.experiment.target}")
    return 0


if __name__ == "__main__":
    run(main)
