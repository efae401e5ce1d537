"""What branches predict, at the start and along the snapshots of a real run."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import caffe
import numpy as np
import pytest
from sklearn.metrics import normalized_mutual_info_score

from latent_domains.common.program import ProgramError
from latent_domains.data.lmdb_io import read_images, read_labels
from latent_domains.experiment.experiment import make_experiment
from latent_domains.runs.outputs import (
    aligned_features,
    confusion_counts,
    domain_probabilities,
    predictions,
    source_lmdbs,
    source_usage,
    target_usage,
    usage_history,
)
from latent_domains.runs.run_folder import RunFolder
from latent_domains.runs.write import write_run
from tests.fixtures import TEST, TRAIN
from tests.run_folders import edit, small, spoil
from tests.training import train_here


def predicted(run: RunFolder, lmdb: Path, limit: int | None = None, blob: str = "domain_prob"):
    """What pycaffe alone makes of a run's net: its ``blob``, and the labels of the images."""
    images, labels = read_images(lmdb, limit)
    file = run.net("deploy" if blob == "prob" else "domains")
    net = caffe.Net(str(file), caffe.TEST, weights=str(run.latest_snapshot().model))
    net.blobs["data"].reshape(*images.shape)
    net.blobs["data"].data[...] = (images - np.float32(127.5)) / 128
    return net.forward()[blob].copy(), labels


@pytest.mark.program
def test_domain_probabilities_probabilities_are_rows_of_the_domain_net(trained, tiny_data):
    found, _ = domain_probabilities(trained, trained.latest_snapshot().model, source_lmdbs(trained), limit=5)
    assert [(source, rows.shape) for source, rows in found.items()] == [("mnist", (5, 3)), ("mnistm", (5, 3))]
    expected, _ = predicted(trained, tiny_data / "digits" / "mnistm_train", 5)
    np.testing.assert_allclose(found["mnistm"], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.program
def test_source_usage_usage_is_measured_on_held_out_images_and_their_classes(trained, tiny_data):
    usage = source_usage(trained, trained.latest_snapshot())
    found = [predicted(trained, tiny_data / "digits" / f"{source}_test") for source in ("mnist", "mnistm")]
    assigned, labels = [rows.argmax(axis=1) for rows, _ in found], [classes for _, classes in found]
    assert usage.held_out
    assert usage.counts == [np.bincount(rows, minlength=3).tolist() for rows in assigned]
    nmi = normalized_mutual_info_score(np.concatenate(labels), np.concatenate(assigned))
    assert usage.nmi_classes == pytest.approx(nmi)


@pytest.mark.program
def test_target_usage_of_several_targets_all_images_count_and_domains_are_held_against_known_classes(
    tiny_data, tmp_path
):
    (tmp_path / "digits").mkdir()
    for part in (tiny_data / "digits").iterdir():
        more = "usps_train" if part.name == "usps_test" else part.name  # than there are test images of mnistm
        (tmp_path / "digits" / part.name).symlink_to(part.with_name(more))
    experiment = small(sources=("mnist",), targets=("mnistm", "usps"), branch_norm="logits", iterations=30)
    run = write_run(experiment, tmp_path / "run", data=tmp_path)
    train_here(run)
    record = run.read_record()
    found = {target: predicted(run, lmdb, blob="prob") for target, lmdb in run.test_lmdbs.items()}
    right = {target: scores.argmax(axis=1) == labels for target, (scores, labels) in found.items()}
    assert {target: len(images) for target, images in right.items()} == {"mnistm": TEST, "usps": TRAIN}
    each = {target: images.mean() for target, images in right.items()}
    assert {target: one.accuracy for target, one in record.targets.items()} == pytest.approx(each)
    assert record.accuracy == pytest.approx(np.concatenate([*right.values()]).mean())
    assert each["mnistm"] != each["usps"] and record.test_images == TEST + TRAIN

    lmdbs = [run.train_lmdbs[target] for target in experiment.targets]
    rows, labels = map(
        np.concatenate, zip(*(predicted(run, lmdb, blob="target_domain_prob") for lmdb in lmdbs), strict=True)
    )
    expected = normalized_mutual_info_score(labels, rows.argmax(axis=1))
    assert record.target_domain_usage.nmi_classes == pytest.approx(expected)
    assert expected > 0
    unlabelled = replace(experiment.task, data=replace(experiment.data, unlabelled=("usps",), usage_images=7))
    nobody_knows = replace(run, experiment=replace(experiment, task=unlabelled))
    usage = target_usage(nobody_knows, run.latest_snapshot())
    assert (usage.nmi_classes, usage.images) == (None, 2 * 7)


@pytest.mark.program
@pytest.mark.parametrize("held", [None, "mnistm_train"])
def test_usage_history_without_held_out_images_usage_is_that_of_training_images(held, trained, tiny_data, tmp_path):
    """One test LMDB is missing, or holds training images, as that of the PACS lists does."""
    (tmp_path / "digits").mkdir()
    for part in (tiny_data / "digits").iterdir():
        if (name := held if part.name == "mnistm_test" else part.name) is not None:
            (tmp_path / "digits" / part.name).symlink_to(part.with_name(name))
    folder = replace(trained, data_folder=tmp_path)
    usage = source_usage(folder, trained.latest_snapshot())
    assert (usage.held_out, usage.images) == (False, 2 * TRAIN)
    assert not any(usage.held_out for usage in usage_history(folder))
    rows, _ = domain_probabilities(trained, trained.latest_snapshot().model, source_lmdbs(trained))
    assert usage.counts == [np.bincount(p.argmax(axis=1), minlength=3).tolist() for p in rows.values()]


@pytest.mark.program
def test_source_usage_the_history_begins_as_the_solver_initialises_the_branch(trained):
    history = usage_history(trained)
    assert [usage.iteration for usage in history] == [0, 2, 4]
    assert all(usage.images == 2 * TEST and sum(usage.share) == pytest.approx(1) for usage in history)
    last = source_usage(trained, trained.latest_snapshot())
    assert history[-1].to_json() == {"iteration": 4, **last.to_json()}
    solver = caffe.SGDSolver(str(trained.solver))
    net = trained.load_net("domains", caffe.TEST, trained.initial)
    for name, blobs in net.params.items():
        for blob, initial in zip(blobs, solver.net.params[name], strict=True):
            assert np.array_equal(blob.data, initial.data), name


@pytest.mark.program
def test_usage_history_the_beginning_is_not_known_of_a_run_that_began_from_weights(trained, tmp_path):
    run = RunFolder.load(shutil.copytree(trained.path, tmp_path / "run"))
    run.training.write_text(json.dumps({"seconds": 1.0, "weights": {"file": "w", "sha256": "0"}}))
    assert [usage.iteration for usage in usage_history(run)] == [2, 4]


@pytest.mark.program
def test_confusion_counts_images_that_fill_no_batch_count_too(trained, tmp_path):
    """A test pass along training leaves them out; the record's accuracy does not."""
    shutil.copytree(trained.path, tmp_path / "run")
    run = replace(trained, path=tmp_path / "run")
    edit(run.net("test"), f"batch_size: {TEST}", "batch_size: 16")
    edit(run.solver, "test_iter: 1\n", f"test_iter: {TEST // 16}\n")
    assert TEST % 16
    found = confusion_counts(run, trained.latest_snapshot(), "usps")
    assert found.sum() == TEST and (found == confusion_counts(trained, trained.latest_snapshot(), "usps")).all()


@pytest.mark.program
def test_confusion_counts_images_mirrored_at_random_are_counted_the_same_every_time(tiny_data, tmp_path):
    experiment = make_experiment("digits", "source_only", batch_size=8, iterations=2, test_mirror=True)
    folder = write_run(experiment, tmp_path / "run", data=tiny_data)
    train_here(folder)
    found = {confusion_counts(folder, folder.latest_snapshot(), "usps").tobytes() for _ in range(4)}
    assert len(found) == 1 and found == {np.array(folder.read_record().targets["usps"].confusion).tobytes()}


def test_predictions_a_tie_goes_where_caffe_lets_it_go(tmp_path):
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


@pytest.mark.program
def test_confusion_counts_a_training_that_diverged_is_told(trained, tmp_path):
    snapshot = trained.latest_snapshot()
    broken = tmp_path / "model_iter_4.caffemodel"
    shutil.copyfile(snapshot.model, broken)
    spoil(broken, "fc5")
    with pytest.raises(ProgramError, match="scores on usps are NaN: the training diverged"):
        confusion_counts(trained, type(snapshot)(4, snapshot.state, broken), "usps")


pytestmark = pytest.mark.program


def test_aligned_features_each_image_is_taken_once_however_many_are_asked_for(trained):
    folder = trained
    features = aligned_features(folder, folder.latest_snapshot(), images=10_000)
    assert features.names == folder.experiment.batch_inputs
    for domain, lmdb in enumerate(folder.train_lmdbs.values()):
        rows = features.domains == domain
        assert features.labels[rows].tolist() == list(read_labels(lmdb))
        assert len(np.unique(features.before[rows], axis=0)) == rows.sum()
    some = aligned_features(folder, folder.latest_snapshot(), images=50)
    assert np.bincount(some.domains).tolist() == [16, 16, 16]


def test_aligned_features_labels_are_those_of_the_images_where_each_epoch_has_an_order_of_its_own(
    trained, tiny_data, tmp_path
):
    recipe = replace(trained.experiment.recipe, data_order="shuffled")
    folder = write_run(replace(trained.experiment, recipe=recipe), tmp_path / "run", data=tiny_data)
    assert "shuffle_seed" in folder.net("train").read_text()
    stored, shuffled = (aligned_features(run, trained.latest_snapshot(), images=50) for run in (trained, folder))
    np.testing.assert_array_equal(shuffled.before, stored.before)
    assert shuffled.labels.tolist() == stored.labels.tolist()
