"""The resizing ablation agrees with the run's own test and refuses runs that it would say nothing true of."""

import caffe
import cv2
import numpy as np
import pytest

from latent_domains.ablations.resizing import WAYS, accuracies
from latent_domains.common.program import ProgramError
from latent_domains.data.sets import usps
from latent_domains.experiment.experiment import make_experiment
from latent_domains.runs.write import write_run
from tests.fixtures import TEST
from tests.programs import program


def test_each_way_is_tested(trained_on_sources):
    """Labels that are the net's own predictions on our images make that way, and no other, all correct."""
    images = np.random.default_rng(0).integers(0, 256, (TEST, 16, 16), np.uint8)
    ours = np.stack([np.stack([cv2.resize(image, (28, 28))] * 3) for image in images])
    net = caffe.Net(
        str(trained_on_sources.net("deploy")), caffe.TEST, weights=str(trained_on_sources.latest_snapshot().model)
    )
    net.blobs["data"].reshape(*ours.shape)
    net.blobs["data"].data[...] = (ours - 127.5) / 128
    labels = net.forward()["prob"].reshape(TEST, 10).argmax(axis=1)
    found = accuracies(trained_on_sources, images, labels)
    assert list(found) == list(WAYS)
    assert found["bilinear (ours)"] == 1.0 and min(found.values()) < 1.0


def test_a_margin_stays_paper():
    images = np.full((2, 16, 16), 255, np.uint8)
    resized = usps.resize(images, margin=4)
    assert resized[:, 4:24, 4:24].min() == 255 and resized.sum() == 255 * 2 * 400
    assert usps.resize(images).min() == 255


def test_runs_that_saw_the_target_are_refused(tiny_data, tmp_path):
    folder = write_run(make_experiment("digits", "dial"), tmp_path / "run", data=tiny_data)
    with pytest.raises(ProgramError, match="dial on digits, expected source_only or plain on digits"):
        accuracies(folder, np.zeros((1, 16, 16), np.uint8), np.zeros(1, np.int64))
    experiment = make_experiment("digits", "source_only", sources=("mnist", "usps"), targets=("mnistm",))
    folder = write_run(experiment, tmp_path / "sources", data=tiny_data)
    with pytest.raises(ProgramError, match=r"/sources: trained on mnist\+usps, expected sources without usps"):
        accuracies(folder, np.zeros((1, 16, 16), np.uint8), np.zeros(1, np.int64))
    done = program("ablate_resizing", tmp_path / "none")
    assert done.returncode == 1 and "no experiment.json in it" in done.stderr
