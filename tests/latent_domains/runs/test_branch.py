"""What branches predict, at the start and along the snapshots of a real run."""

import json

import caffe
import numpy as np
import pytest

from latent_domains.common.caffe_process import Threads
from latent_domains.data.lmdb_io import read_images
from latent_domains.experiment.experiment import make_experiment
from latent_domains.runs import branch
from latent_domains.runs.branch import source_probabilities, usage_history
from latent_domains.runs.write import write_run
from latent_domains.training.train import train_all


@pytest.fixture(scope="module")
def trained(tiny_data, tmp_path_factory):
    """mDA, k = 3, for four iterations with a snapshot in between."""
    experiment = make_experiment("digits", "mda", k=3, batch_size=8, iterations=4, seed=5)
    folder = write_run(experiment, tmp_path_factory.mktemp("runs") / "run", data=tiny_data)
    folder.solver.write_text(folder.solver.read_text().replace("snapshot: 500", "snapshot: 2"))
    train_all([folder], threads=Threads(1, 1))
    return folder


def test_probabilities_are_rows_of_the_domain_net(trained, tiny_data):
    found = source_probabilities(trained, trained.latest_snapshot(), limit=5, quiet=True)
    assert [(source, rows.shape) for source, rows in found.items()] == [("mnist", (5, 3)), ("mnistm", (5, 3))]
    images, _ = read_images(tiny_data / "digits" / "mnistm_train", 5)
    net = caffe.Net(str(trained.net("domains")), caffe.TEST, weights=str(trained.latest_snapshot().model))
    net.blobs["data"].reshape(*images.shape)
    net.blobs["data"].data[...] = (images - np.float32(127.5)) / 128
    np.testing.assert_allclose(found["mnistm"], net.forward()["domain_prob"], rtol=1e-5, atol=1e-6)


def test_the_history_begins_as_the_solver_initialises_the_branch(trained, monkeypatch):
    history = usage_history(trained, quiet=True)
    assert [usage.iteration for usage in history] == [0, 2, 4]
    assert all(usage.images == 96 and sum(usage.share) == pytest.approx(1) for usage in history)
    last = branch.domain_usage(source_probabilities(trained, trained.latest_snapshot(), quiet=True))
    assert history[-1].to_json() == {"iteration": 4, **last.to_json()}
    solver = caffe.SGDSolver(str(trained.solver))
    net = branch._initial(trained)
    for name, blobs in net.params.items():
        for blob, initial in zip(blobs, solver.net.params[name], strict=True):
            assert np.array_equal(blob.data, initial.data), name


def test_the_beginning_is_not_known_of_a_run_that_began_from_weights(trained):
    before = trained.training.read_text()
    try:
        trained.training.write_text(json.dumps({"seconds": 1.0, "weights": {"file": "w", "sha256": "0"}}))
        assert [usage.iteration for usage in usage_history(trained, quiet=True)] == [2, 4]
    finally:
        trained.training.write_text(before)


def test_without_a_branch_there_is_nothing_to_tell(tiny_data, tmp_path):
    folder = write_run(make_experiment("digits", "dial"), tmp_path / "run", data=tiny_data)
    assert usage_history(folder) == []
