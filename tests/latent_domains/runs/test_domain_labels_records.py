"""Runs that draw their source images in equal shares of the classes."""

import re

import caffe
import numpy as np
import pytest

from latent_domains.common.program import ProgramError
from latent_domains.data import lmdb_io
from latent_domains.data.join import read_domains
from latent_domains.runs.preflight import preflight
from latent_domains.runs.write import write_run
from tests.run_folders import small
from tests.training import train_here

MIXTURE = "mnist+mnistm"


def drawn(folder) -> dict[str, np.ndarray]:
    return {part: np.array(file.read_text().split(), int) for part, file in folder.record_numbers.items()}


def assert_equal(labels: np.ndarray) -> None:
    counts = np.bincount(labels)
    assert counts[counts > 0].max() <= 1.2 * counts[counts > 0].min(), counts


@pytest.mark.parametrize("method", ["dial", "style_w"])
def test_classes_are_equal_in_each_source(method, mixed, tmp_path):
    folder = write_run(small(method, equal_classes=True), tmp_path / "run", data=mixed)
    for part, numbers in drawn(folder).items():
        labels = lmdb_io.read_labels(folder.train_lmdbs[part])
        assert_equal(labels[numbers])
        assert set(numbers) == set(range(48)) and np.bincount(labels).min() < np.bincount(labels).max()


@pytest.mark.program
@pytest.mark.parametrize("method", ["multi_source", "style_w", "kmeans_w", "mda"])
def test_classes_of_a_mixture_are_equal_in_each_domain_that_is_found_or_known(method, mixed, tmp_path):
    """In the clusters of which the branch is told a part, too; without any, in the whole mixture."""
    found = {"style_share": 0.5} if method == "mda" else {}
    folder = write_run(small(method, undivided=True, equal_classes=True, **found), tmp_path / "run", data=mixed)
    lmdb, (numbers,) = folder.train_lmdbs[MIXTURE], drawn(folder).values()
    labels = lmdb_io.read_labels(lmdb)
    domains = lmdb_io.read_labels(folder.domain_labels[MIXTURE])
    if method == "mda":
        domains = np.array([domain == "mnist_train" for domain in read_domains(lmdb)])
    for domain in (0, 1):
        assert_equal(labels[numbers[domains[numbers] == domain]])
    train_here(folder)
    assert 0 <= folder.read_record().accuracy <= 1
    alone = write_run(small("mda", undivided=True, equal_classes=True), tmp_path / "alone", data=mixed)
    assert_equal(labels[drawn(alone)[MIXTURE]])


@pytest.mark.parametrize("order", ["stored", "shuffled"])
def test_images_and_domain_labels_are_read_in_step(order, mixed, tmp_path):
    """And whoever reads a training set as it is stored meets each image once."""
    experiment = small("style_w", undivided=True, equal_classes=True, data_order=order)
    folder = write_run(experiment, tmp_path / "run", data=mixed)
    lmdb = folder.train_lmdbs[MIXTURE]
    images, labels = lmdb_io.read_images(lmdb)
    domains = lmdb_io.read_labels(folder.domain_labels[MIXTURE])
    places = {image.tobytes(): place for place, image in enumerate(images)}
    assert len(places) == 96 and len(set(domains)) == 2

    def met(net: caffe.Net, batches: int) -> list[int]:
        found = []
        for _ in range(batches):
            net.forward()
            pixels = np.rint(net.blobs[f"data_{MIXTURE}"].data * 128 + 127.5).astype(np.uint8)
            batch = [places[one.tobytes()] for one in pixels]
            np.testing.assert_array_equal(net.blobs[f"label_{MIXTURE}"].data, labels[batch])
            np.testing.assert_array_equal(net.blobs[f"domain_label_{MIXTURE}"].data.ravel(), domains[batch])
            found += batch
        return found

    (numbers,) = drawn(folder).values()
    trained, as_stored = caffe.Net(str(folder.net("train")), caffe.TRAIN), folder.load_net("train", caffe.TRAIN)
    rows = trained.blobs[f"data_{MIXTURE}"].shape[0]
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
