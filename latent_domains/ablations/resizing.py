"""What the way in which USPS is resized does to an accuracy on it."""

from collections.abc import Mapping, Sequence
from statistics import mean, stdev

import caffe
import cv2
import numpy as np
from numpy.typing import NDArray

from latent_domains.common.markdown import table
from latent_domains.common.program import ProgramError
from latent_domains.data.sets import usps
from latent_domains.experiment.experiment import SOURCE_ONLY
from latent_domains.models.model import feed
from latent_domains.runs.run_folder import RunFolder

WAYS: dict[str, dict[str, int]] = {
    "bilinear (ours)": {},
    "bicubic": {"interpolation": cv2.INTER_CUBIC},
    "nearest": {"interpolation": cv2.INTER_NEAREST},
    "bilinear, margin 1": {"margin": 1},
    "bilinear, margin 2": {"margin": 2},
    "bilinear, margin 3": {"margin": 3},
    "bilinear, margin 4 as MNIST": {"margin": 4},
}
"""Arguments of :func:`latent_domains.data.sets.usps.resize`; MNIST's digits lie in the inner 20×20 pixels."""


def accuracies(folder: RunFolder, images: NDArray[np.uint8], labels: NDArray[np.int64]) -> dict[str, float]:
    """Accuracy of a run's last iteration on USPS images (n×16×16) with ``labels`` (n), by the way they are resized.

    Raises ProgramError if the run is not of the digits, saw the target or USPS in training or is not finished.
    """
    experiment = folder.experiment
    if experiment.dataset != "digits" or experiment.method not in SOURCE_ONLY:
        raise ProgramError(
            f"{folder.path}: {experiment.method} on {experiment.dataset}, expected source_only or plain on digits: "
            "the other methods were trained on resized target images"
        )
    if "usps" in experiment.sources:
        raise ProgramError(
            f"{folder.path}: trained on {'+'.join(experiment.sources)}, expected sources without usps: it saw resized "
            "images of it"
        )
    net = folder.load_net("deploy", caffe.TEST, folder.final_snapshot().model)
    found = {}
    for way, arguments in WAYS.items():
        resized = usps.resize(images, **arguments)
        inputs = experiment.data.preprocessing.inputs(list(np.repeat(resized[:, np.newaxis], 3, axis=1)))
        feed(net, inputs)
        (scores,) = net.forward().values()
        found[way] = float((scores.reshape(len(labels), -1).argmax(axis=1) == labels).mean())
    return found


def table_of(by_name: Mapping[str, Sequence[Mapping[str, float]]]) -> str:
    """Accuracies by the way of resizing: mean and standard deviation over the seeds' runs of each name."""
    rows = []
    for way in WAYS:
        columns = [[100 * found[way] for found in runs] for runs in by_name.values()]
        rows.append([way, *(f"{mean(c):.1f}" + (f" ± {stdev(c):.1f}" if len(c) > 1 else "") for c in columns)])
    header = [f"{name} (n = {len(runs)})" for name, runs in by_name.items()]
    return table(["USPS resized", *header], rows)
