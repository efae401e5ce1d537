"""What branches predict, at the start and along the snapshots of a real run."""

import json
import shutil
from dataclasses import replace
from unittest import mock

import caffe
import numpy as np
import pytest
from sklearn.metrics import normalized_mutual_info_score

from latent_domains.common.program import ProgramError
from latent_domains.data.lmdb_io import read_images, read_labels
from latent_domains.experiment.experiment import make_experiment
from latent_domains.runs.outputs import (
    confusion_counts,
    domain_probabilities,
    evaluation_lmdbs,
    predictions,
    source_lmdbs,
    source_usage,
    target_usage,
    usage_history,
)
from latent_domains.runs.write import write_run
from latent_domains.training.train import train_all
from tests.fixtures import TEST, TRAIN
from tests.run_folders import edit, small, spoil


def test_probabilities_are_rows_of_the_domain_net(trained, tiny_data):
    found, _ = domain_probabilities(trained, trained.latest_snapshot().model, source_lmdbs(trained), limit=5)
    assert [(source, rows.shape) for source, rows in found.items()] == [("mnist", (5, 3)), ("mnistm", (5, 3))]
    images, _ = read_images(tiny_data / "digits" / "mnistm_train", 5)
    net = caffe.Net(str(trained.net("domains")), caffe.TEST, weights=str(trained.latest_snapshot().model))
    net.blobs["data"].reshape(*images.shape)
    net.blobs["data"].data[...] = (images - np.float32(127.5)) / 128
    np.testing.assert_allclose(found["mnistm"], net.forward()["domain_prob"], rtol=1e-5, atol=1e-6)


def test_usage_is_measured_on_held_out_images_and_their_classes(trained, tiny_data):
    usage = source_usage(trained, trained.latest_snapshot(), quiet=True)
    net = caffe.Net(str(trained.net("domains")), caffe.TEST, weights=str(trained.latest_snapshot().model))
    assigned, labels = [], []
    for source in ("mnist", "mnistm"):
        images, classes = read_images(tiny_data / "digits" / f"{source}_test")
        net.blobs["data"].reshape(*images.shape)
        net.blobs["data"].data[...] = (images - np.float32(127.5)) / 128
        assigned.append(net.forward()["domain_prob"].argmax(axis=1))
        labels.append(classes)
    assert usage.held_out
    assert usage.counts == [np.bincount(rows, minlength=3).tolist() for rows in assigned]
    nmi = normalized_mutual_info_score(np.concatenate(labels), np.concatenate(assigned))
    assert usage.nmi_classes == pytest.approx(nmi)


def test_latent_targets_are_held_against_classes_whose_labels_are_known(tiny_data, tmp_path):
    run = write_run(small(k_target=2, branch_norm="logits"), tmp_path / "run", data=tiny_data)
    train_all([run], threads=1)
    snapshot = run.latest_snapshot()
    net = caffe.Net(str(run.net("domains")), caffe.TEST, weights=str(snapshot.model))
    images, labels = read_images(tiny_data / "digits" / "usps_train")
    net.blobs["data"].reshape(*images.shape)
    net.blobs["data"].data[...] = (images - np.float32(127.5)) / 128
    expected = normalized_mutual_info_score(labels, net.forward()["target_domain_prob"].argmax(axis=1))
    assert run.read_record().target_domain_usage.nmi_classes == pytest.approx(expected)
    assert expected > 0
    unlabelled = replace(run.experiment.data, unlabelled=("usps",))
    nobody_knows = replace(run, experiment=replace(run.experiment, data=unlabelled))
    assert target_usage(nobody_knows, snapshot, quiet=True).nmi_classes is None


def without(tiny_data, tmp_path, name, links):
    """A run folder whose data are the tiny ones without the LMDB ``name`` and with ``links``."""
    data = tmp_path / "data" / "digits"
    data.mkdir(parents=True)
    for part in (tiny_data / "digits").iterdir():
        if part.name != name:
            (data / part.name).symlink_to(part)
    for link, part in links.items():
        (data / link).symlink_to(tiny_data / "digits" / part)
    return tmp_path / "data"


@pytest.mark.parametrize("links", [{}, {"mnistm_test": "mnistm_train"}])
def test_without_held_out_images_usage_is_that_of_training_images(links, trained, tiny_data, tmp_path):
    """One test LMDB is missing, or holds training images, as that of the PACS lists does."""
    folder = replace(trained, data_folder=without(tiny_data, tmp_path, "mnistm_test", links))
    usage = source_usage(folder, trained.latest_snapshot(), quiet=True)
    assert (usage.held_out, usage.images) == (False, 2 * TRAIN)
    assert not any(usage.held_out for usage in usage_history(folder, quiet=True))
    rows, _ = domain_probabilities(trained, trained.latest_snapshot().model, source_lmdbs(trained))
    assert usage.counts == [np.bincount(p.argmax(axis=1), minlength=3).tolist() for p in rows.values()]


def test_an_undivided_source_is_looked_at_by_its_domains(trained, tiny_data):
    folder = replace(trained, experiment=make_experiment("digits", "mda", undivided=True, k=3))
    lmdbs, held_out = evaluation_lmdbs(folder)
    assert held_out and [lmdb.name for lmdb in lmdbs.values()] == ["mnist_test", "mnistm_test"]


def test_the_history_begins_as_the_solver_initialises_the_branch(trained, monkeypatch):
    history = usage_history(trained, quiet=True)
    assert [usage.iteration for usage in history] == [0, 2, 4]
    assert all(usage.images == 2 * TEST and sum(usage.share) == pytest.approx(1) for usage in history)
    last = source_usage(trained, trained.latest_snapshot(), quiet=True)
    assert history[-1].to_json() == {"iteration": 4, **last.to_json()}
    solver = caffe.SGDSolver(str(trained.solver))
    net = trained.load_net("domains", caffe.TEST, trained.initial)
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


@pytest.fixture(scope="module")
def two_iterations(tiny_data, tmp_path_factory):
    """mDA after two iterations on the tiny digits."""
    experiment = make_experiment("digits", "mda", batch_size=8, iterations=2)
    folder = write_run(experiment, tmp_path_factory.mktemp("runs") / "run", data=tiny_data)
    train_all([folder], threads=1)
    return folder


def test_the_counts_are_those_of_caffes_accuracy(two_iterations):
    snapshot = two_iterations.latest_snapshot()
    counts = confusion_counts(two_iterations, snapshot, "usps")
    net = caffe.Net(str(two_iterations.net("test")), caffe.TEST, weights=str(snapshot.model))
    assert counts.trace() / TEST == pytest.approx(float(net.forward()["accuracy"]), abs=1e-6)
    labels = read_labels(two_iterations.test_lmdbs["usps"])
    assert counts.sum(axis=1).tolist() == np.bincount(labels, minlength=10).tolist()


def test_a_prime_number_of_images_makes_no_batches_of_one(two_iterations, tmp_path):
    snapshot = two_iterations.latest_snapshot()
    shutil.copytree(two_iterations.path, tmp_path / "run")
    data = replace(two_iterations.experiment.data, test_batch_limit=7)
    experiment = replace(two_iterations.experiment, data=data)
    run = replace(two_iterations, path=tmp_path / "run", experiment=experiment)
    edit(run.net("test"), f"batch_size: {TEST}", "batch_size: 1")
    edit(run.solver, "test_iter: 1\n", f"test_iter: {TEST}\n")
    assert TEST % 7  # of the last batch a part counts
    with mock.patch.object(caffe.Net, "forward", autospec=True, side_effect=caffe.Net.forward) as forward:
        counts = confusion_counts(run, snapshot, "usps")
    assert forward.call_count == -(-TEST // 7)
    assert (counts == confusion_counts(two_iterations, snapshot, "usps")).all()


def test_images_mirrored_at_random_are_counted_the_same_every_time(tiny_data, tmp_path):
    experiment = make_experiment("digits", "source_only", batch_size=8, iterations=2, test_mirror=True)
    folder = write_run(experiment, tmp_path / "run", data=tiny_data)
    train_all([folder], threads=1)
    found = {confusion_counts(folder, folder.latest_snapshot(), "usps").tobytes() for _ in range(4)}
    assert len(found) == 1 and found == {np.array(folder.read_record().targets["usps"].confusion).tobytes()}


def test_a_tie_goes_where_caffe_lets_it_go(tmp_path):
    net_file = tmp_path / "net.prototxt"
    net_file.write_text(
        'layer { name: "in" type: "Input" top: "scores" top: "label"'
        " input_param { shape { dim: 1 dim: 3 } shape { dim: 1 } } }"
        'layer { name: "accuracy" type: "Accuracy" bottom: "scores" bottom: "label" top: "accuracy" }'
    )
    net = caffe.Net(str(net_file), caffe.TEST)
    for scores in ([1, 1, 0], [0, 1, 1], [1, 0, 1], [1, 1, 1], [2, 1, 1]):
        net.blobs["scores"].data[...] = scores
        for label in range(3):
            net.blobs["label"].data[...] = label
            correct = predictions(np.array([scores], np.float32), np.array([label]))[0] == label
            assert float(net.forward()["accuracy"]) == correct, (scores, label)


def test_a_training_that_diverged_is_told(two_iterations, tmp_path):
    snapshot = two_iterations.latest_snapshot()
    broken = tmp_path / "model_iter_2.caffemodel"
    shutil.copyfile(snapshot.model, broken)
    spoil(broken, "fc5")
    with pytest.raises(ProgramError, match="scores on usps are NaN: the training diverged"):
        confusion_counts(two_iterations, type(snapshot)(2, snapshot.state, broken), "usps")
