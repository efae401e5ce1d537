"""Accuracy on USPS by the way in which its 16×16 images become 28×28."""

import caffe
import cv2
import numpy as np
from numpy.typing import NDArray

from latent_domains.common.program import ProgramError
from latent_domains.data.sets import usps
from latent_domains.experiment.experiment import SOURCE_ONLY
from latent_domains.runs.evaluate import last_snapshot
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
