"""How much of a source-only accuracy on USPS is the way its 16×16 images become 28×28?

The paper does not say how it resized them. Runs of the digits that never saw the target (source_only, plain) need no
training anew: their last iteration is tested on USPS's test images resized in several ways. Prints the accuracies, mean
and standard deviation over the runs of a setting, and writes those of every run to --out as JSON.
"""

import argparse
import os
from dataclasses import replace
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import caffe
import cv2
import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from tools.data import fetch, usps
from tools.data.homes import USPS_TEST
from tools.evaluate import last_snapshot
from tools.experiment import SOURCE_ONLY
from tools.files import json_text, write_text
from tools.markdown import table
from tools.program import ROOT, ProgramError, run
from tools.run_folder import RunFolder

WAYS: dict[str, dict[str, int]] = {
    "bilinear (ours)": {},
    "bicubic": {"interpolation": cv2.INTER_CUBIC},
    "nearest": {"interpolation": cv2.INTER_NEAREST},
    "bilinear, margin 1": {"margin": 1},
    "bilinear, margin 2": {"margin": 2},
    "bilinear, margin 3": {"margin": 3},
    "bilinear, margin 4 as MNIST": {"margin": 4},
}
"""Arguments of :func:`tools.data.usps.resize`; MNIST's digits lie in the inner 20×20 pixels."""


def accuracies(folder: RunFolder, images: NDArray[np.uint8], labels: NDArray[np.int64]) -> dict[str, float]:
    """Accuracy of a run's last iteration on USPS images (n×16×16) with ``labels`` (n), by the way they are resized.

    Raises ProgramError if the run is not of the digits, saw the target in training or is not finished.
    """
    experiment = folder.experiment
    if experiment.dataset != "digits" or experiment.method not in SOURCE_ONLY:
        raise ProgramError(
            f"{folder.path}: {experiment.method} on {experiment.dataset}, expected source_only or plain on digits: "
            "the other methods were trained on resized target images"
        )
    model = last_snapshot(folder).model
    net = caffe.Net(str(folder.net("deploy").resolve()), caffe.TEST, weights=str(model.resolve()))
    found = {}
    for way, arguments in WAYS.items():
        resized = usps.resize(images, **arguments)
        inputs = experiment.data.preprocessing.inputs(list(np.repeat(resized[:, np.newaxis], 3, axis=1)))
        net.blobs["data"].reshape(*inputs.shape)
        net.blobs["data"].data[...] = inputs
        (scores,) = net.forward().values()
        found[way] = float((scores.reshape(len(labels), -1).argmax(axis=1) == labels).mean())
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.ablate_resizing",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="trained run folders, source_only on digits")
    parser.add_argument(
        "--mirror", type=Path, default=os.environ.get("DATA_MIRROR") or None, metavar="DIR",
        help="read USPS here instead of downloading it (default: environment variable DATA_MIRROR)",
    )
    parser.add_argument("--data", type=Path, default=ROOT / "data", help="folder with the downloads (default: data)")
    parser.add_argument("--out", type=Path, help="write the results there as JSON")
    options = parser.parse_args()
    folders = [RunFolder.load(path.resolve()) for path in options.runs]
    unpacked = fetch.unpacked(USPS_TEST, options.data / "downloads", options.mirror)
    images, labels = usps.parse(USPS_TEST.path, unpacked, usps.TEST_COUNTS)
    results: list[dict[str, Any]] = []
    settings: dict[str, list[dict[str, float]]] = {}
    for folder in tqdm(folders, unit="run"):
        found = accuracies(folder, images, labels)
        results.append({"experiment": folder.experiment.to_json(), "accuracy": found})
        settings.setdefault(replace(folder.experiment, seed=0).name, []).append(found)
    rows = []
    for way in WAYS:
        columns = [[100 * found[way] for found in runs] for runs in settings.values()]
        rows.append([way, *(f"{mean(c):.1f}" + (f" ± {stdev(c):.1f}" if len(c) > 1 else "") for c in columns)])
    header = [f"{name.removesuffix('_seed0')} (n = {len(runs)})" for name, runs in settings.items()]
    print(table(["USPS resized", *header], rows))
    if options.out:
        write_text(options.out, json_text(results))
    return 0


if __name__ == "__main__":
    run(main)
