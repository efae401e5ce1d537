"""Domain labels of run folders."""

import math
import re

import caffe
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latent_domains.common.program import ProgramError
from latent_domains.data import lmdb_io
from latent_domains.data.join import read_domains
from latent_domains.domains.assign import assign
from latent_domains.domains.pictures import Pictures, choose_known, numbers
from latent_domains.experiment.experiment import make_experiment
from latent_domains.experiment.methods import CONTROLS
from latent_domains.runs.domain_labels import assigned_domains, write_domain_labels
from latent_domains.runs.preflight import preflight
from latent_domains.runs.record import domain_usage
from latent_domains.runs.run_folder import RunFolder
from latent_domains.runs.write import write_run
from tests.run_folders import small
from tests.training import train_here


@pytest.mark.program
@pytest.mark.parametrize("method", CONTROLS)
def test_assigned_domains_a_control_labels_every_source_image(method, tiny_data, tmp_path):
    folders = [write_run(small(method, k=3, seed=seed), tmp_path / str(seed), data=tiny_data) for seed in (0, 1)]
    preflight(folders[0])
    assert folders[0].path.joinpath("domains.prototxt").exists() is False
    found = [{source: lmdb_io.read_labels(lmdb) for source, lmdb in f.domain_labels.items()} for f in folders]
    for labels in found:
        assert list(labels) == ["mnist", "mnistm"]
        assert {len(values) for values in labels.values()} == {48}
        assert set(np.concatenate(list(labels.values()))) == {0, 1, 2}
    if method == "random_w":
        assert all(np.bincount(values).tolist() == [16] * 3 for values in found[0].values())
        assert not np.array_equal(found[0]["mnist"], found[1]["mnist"])
    rows = assigned_domains(folders[0])
    assert {source: values.argmax(axis=1).tolist() for source, values in rows.items()} == {
        source: values.tolist() for source, values in found[0].items()
    }
    usage = domain_usage(rows)
    assert usage.images == np.sum(usage.counts) == 96
    assert usage.mean_probability == (np.array(usage.counts) / 48).round(6).tolist()


def test_run_folder_clusters_of_features_are_of_their_early_statistics(tmp_path):
    folder = RunFolder(tmp_path / "run", make_experiment("pacs_lite0", "kmeans_w", k=2), tmp_path)
    rng, group = np.random.default_rng(0), np.arange(10) % 2
    for source in folder.experiment.sources:
        rows = rng.normal(size=(10, 1360)) * np.repeat([100, 1], [1280, 80]) + np.outer(group, np.arange(1360) >= 1280)
        with lmdb_io.create(folder.train_lmdbs[source]) as (writer, _):
            for row in rows.astype(np.float32):
                writer.put("x", lmdb_io.feature_datum(row, 0))
    w = assign(Pictures(folder.experiment, tmp_path), folder.experiment.method.way)
    same = numbers(w) == np.tile(group, 3)
    assert same.all() or not same.any()


MIXTURE = {"shares": (80, 20)}


@pytest.mark.program
@pytest.mark.parametrize("method", [CONTROLS[0], "multi_source", "mda"])
def test_write_run_an_undivided_source_with_shares_trains(method, mixed, tmp_path):
    folder = write_run(small(method, **MIXTURE), tmp_path / "run", data=mixed)
    train_here(folder)
    record = folder.read_record()
    assert "mnist80+mnistm20_train has 60 images, published 75000" in record.incomplete_data
    usage = record.domain_usage
    if method in CONTROLS:
        assert usage.sources == ["mnist", "mnistm"] and np.sum(usage.counts, axis=1).tolist() == [48, 12]
    else:
        assert (usage is not None) == (method == "mda")


def test_assigned_domains_labels_of_a_mixture_are_in_its_records_order(mixed, tmp_path):
    mixture = mixed / "digits" / "mnist80+mnistm20_train"
    true = np.array(["mnistm" in key.decode() for key, _ in lmdb_io.read(mixture)])
    assert true.sum() == 12
    for method in ("multi_source", *CONTROLS):
        folder = write_run(small(method, **MIXTURE), tmp_path / method, data=mixed)
        labels = lmdb_io.read_labels(folder.domain_labels["mnist80+mnistm20"])
        if method == "multi_source":
            assert labels.tolist() == true.astype(int).tolist()
            assert assigned_domains(folder) == {}
        else:
            rows = assigned_domains(folder)
            assert rows["mnistm"].argmax(axis=1).tolist() == labels[true].tolist()
            assert rows["mnist"].argmax(axis=1).tolist() == labels[~true].tolist()


def test_assigned_domains_a_mixture_that_does_not_say_what_it_is_made_of(mixed, tmp_path):
    mixture = mixed / "digits" / "mnist80+mnistm20_train"
    (mixture / "domains.txt").unlink()
    folder = write_run(small("random_w", **MIXTURE), tmp_path / "run", data=mixed)
    assert list(assigned_domains(folder)) == ["mnist80+mnistm20"]
    message = f"{mixture}: no domains.txt says which domain each image is from"
    with pytest.raises(ProgramError, match=re.escape(message)):
        write_run(small("multi_source", **MIXTURE), tmp_path / "known", data=mixed)
    (mixture / "domains.txt").write_text("usps\n" * lmdb_io.count(mixture))
    message = f"{mixture / 'domains.txt'}: domains usps, expected those of the sources mnist, mnistm"
    with pytest.raises(ProgramError, match=re.escape(message)):
        write_run(small("multi_source", **MIXTURE), tmp_path / "known", data=mixed)
    assert not (tmp_path / "known").exists()


@pytest.mark.program
def test_preflight_a_missing_mixture_is_named_with_the_command_that_makes_it(tiny_data, tmp_path):
    folder = write_run(small("dial", **MIXTURE), tmp_path / "run", data=tiny_data)
    command = r"python -m tools.join_lmdbs --shares 80:20 .*mnist_train'? .*mnistm_train'? .*mnist80\+mnistm20_train"
    with pytest.raises(ProgramError, match=command):
        preflight(folder)


def test_write_domain_labels_caffes_data_layer_gives_them_in_order(tmp_path):
    labels = [0, 1, -1, 2, -1]
    write_domain_labels(tmp_path / "db", labels)
    net = tmp_path / "net.prototxt"
    net.write_text(
        'layer { name: "d" type: "Data" top: "d" '
        f'data_param {{ source: "{tmp_path / "db"}" batch_size: 3 backend: LMDB }} }}'
    )
    assert lmdb_io.describe(tmp_path / "db").class_counts == {-1: 2, 0: 1, 1: 1, 2: 1}
    blob = caffe.Net(str(net), caffe.TRAIN)
    batches = [blob.forward()["d"].copy() for _ in range(4)]
    assert batches[0].shape == (3, 1, 1, 1)
    assert np.concatenate(batches).ravel().tolist() == [labels[i % 5] for i in range(12)]


COUNTS = st.lists(st.integers(0, 300), min_size=1, max_size=5)
SHARES = st.floats(0, 1)
SEEDS = st.integers(0, 2**32)


@given(COUNTS, SHARES, SEEDS)
def test_domain_labels_every_domain_keeps_its_rounded_share(counts, share, seed):
    masks = choose_known(counts, share, seed)
    assert [len(mask) for mask in masks] == counts
    assert [int(mask.sum()) for mask in masks] == [math.floor(share * n + 0.5) for n in counts]
    assert all(np.array_equal(a, b) for a, b in zip(masks, choose_known(counts, share, seed), strict=True))


@given(COUNTS, SHARES, SHARES, SEEDS)
def test_domain_labels_a_larger_share_keeps_who_was_known(counts, a, b, seed):
    for less, more in zip(*(choose_known(counts, share, seed) for share in sorted((a, b))), strict=True):
        assert not (less & ~more).any()


def test_domain_labels_each_domain_and_each_seed_has_a_choice_of_its_own():
    assert len({mask.tobytes() for seed in (0, 1) for mask in choose_known([70, 70], 0.5, seed)}) == 4


@given(SHARES, SEEDS)
def test_domain_labels_a_domain_is_chosen_by_itself(share, seed):
    assert np.array_equal(choose_known([40, 70], share, seed)[1], choose_known([9, 70], share, seed)[1])


JOINED = "mnist+mnistm"


def drawn(folder) -> dict[str, np.ndarray]:
    return {part: np.array(file.read_text().split(), int) for part, file in folder.record_numbers.items()}


def assert_equal(labels: np.ndarray) -> None:
    counts = np.bincount(labels)
    assert counts[counts > 0].max() <= 1.2 * counts[counts > 0].min(), counts


@pytest.mark.parametrize("method", ["dial", "style_w"])
def test_write_run_classes_are_equal_in_each_source(method, mixed, tmp_path):
    folder = write_run(small(method, equal_classes=True), tmp_path / "run", data=mixed)
    for part, chosen in drawn(folder).items():
        labels = lmdb_io.read_labels(folder.train_lmdbs[part])
        assert_equal(labels[chosen])
        assert set(chosen) == set(range(48)) and np.bincount(labels).min() < np.bincount(labels).max()


@pytest.mark.program
@pytest.mark.parametrize("method", ["multi_source", "style_w", "kmeans_w", "mda"])
def test_write_run_classes_of_a_mixture_are_equal_in_each_domain_that_is_found_or_known(method, mixed, tmp_path):
    """In the clusters of which the branch is told a part, too; without any, in the whole mixture."""
    found = {"style_share": 0.5} if method == "mda" else {}
    folder = write_run(small(method, undivided=True, equal_classes=True, **found), tmp_path / "run", data=mixed)
    lmdb, (numbers,) = folder.train_lmdbs[JOINED], drawn(folder).values()
    labels = lmdb_io.read_labels(lmdb)
    domains = lmdb_io.read_labels(folder.domain_labels[JOINED])
    if method == "mda":
        domains = np.array([domain == "mnist_train" for domain in read_domains(lmdb)])
    for domain in (0, 1):
        assert_equal(labels[numbers[domains[numbers] == domain]])
    train_here(folder)
    assert 0 <= folder.read_record().accuracy <= 1
    alone = write_run(small("mda", undivided=True, equal_classes=True), tmp_path / "alone", data=mixed)
    assert_equal(labels[drawn(alone)[JOINED]])


@pytest.mark.parametrize("order", ["stored", "shuffled"])
def test_write_run_images_and_domain_labels_are_read_in_step(order, mixed, tmp_path):
    """And whoever reads a training set as it is stored meets each image once."""
    experiment = small("style_w", undivided=True, equal_classes=True, data_order=order)
    folder = write_run(experiment, tmp_path / "run", data=mixed)
    lmdb = folder.train_lmdbs[JOINED]
    images, labels = lmdb_io.read_images(lmdb)
    domains = lmdb_io.read_labels(folder.domain_labels[JOINED])
    places = {image.tobytes(): place for place, image in enumerate(images)}
    assert len(places) == 96 and len(set(domains)) == 2

    def met(net: caffe.Net, batches: int) -> list[int]:
        found = []
        for _ in range(batches):
            net.forward()
            pixels = np.rint(net.blobs[f"data_{JOINED}"].data * 128 + 127.5).astype(np.uint8)
            batch = [places[one.tobytes()] for one in pixels]
            np.testing.assert_array_equal(net.blobs[f"label_{JOINED}"].data, labels[batch])
            np.testing.assert_array_equal(net.blobs[f"domain_label_{JOINED}"].data.ravel(), domains[batch])
            found += batch
        return found

    (numbers,) = drawn(folder).values()
    trained, as_stored = caffe.Net(str(folder.net("train")), caffe.TRAIN), folder.load_net("train", caffe.TRAIN)
    rows = trained.blobs[f"data_{JOINED}"].shape[0]
    epoch = met(trained, -(-len(numbers) // rows))[: len(numbers)]
    assert sorted(epoch) == sorted(numbers) and (epoch == numbers.tolist()) == (order == "stored")
    assert met(as_stored, 96 // rows) == list(range(96))


@pytest.mark.program
def test_numbers_of_other_records_are_found_before_training(mixed, tmp_path):
    folder = write_run(small("dial", equal_classes=True), tmp_path / "run", data=mixed)
    file = folder.record_numbers["mnistm"]
    assert file.read_text() != folder.record_numbers["mnist"].read_text()
    file.unlink()
    with pytest.raises(ProgramError, match=f"^{re.escape(str(file))}: no such file, expected numbers of records; wri"):
        preflight(folder)
