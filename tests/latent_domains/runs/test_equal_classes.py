"""Runs that draw their source images in equal shares of the classes."""

import re
import shutil

import caffe
import numpy as np
import pytest

from latent_domains.common.program import ProgramError
from latent_domains.data import lmdb_io
from latent_domains.data.join import join, read_domains
from latent_domains.runs.preflight import preflight
from latent_domains.runs.write import write_run
from latent_domains.training.train import train_all
from tests.run_folders import small

MIXTURE = "mnist+mnistm"


@pytest.fixture
def data(tiny_data, tmp_path):
    """The tiny digits with half of each source, of unequal classes, in one LMDB."""
    shutil.copytree(tiny_data, tmp_path / "data")
    inputs = [tmp_path / "data" / "digits" / f"{source}_train" for source in ("mnist", "mnistm")]
    join(inputs, tmp_path / "data" / "digits" / f"{MIXTURE}_train")
    return tmp_path / "data"


def drawn(folder) -> dict[str, np.ndarray]:
    return {part: np.array(file.read_text().split(), int) for part, file in folder.records.items()}


def assert_equal(labels: np.ndarray) -> None:
    counts = np.bincount(labels)
    assert counts[counts > 0].max() <= 1.2 * counts[counts > 0].min(), counts


@pytest.mark.parametrize("method", ["dial", "style_w"])
def test_classes_are_equal_in_each_source(method, data, tmp_path):
    folder = write_run(small(method, equal_classes=True), tmp_path / "run", data=data)
    for part, numbers in drawn(folder).items():
        labels = lmdb_io.read_labels(folder.train_lmdbs[part])
        assert_equal(labels[numbers])
        assert set(numbers) == set(range(48)) and np.bincount(labels).min() < np.bincount(labels).max()


@pytest.mark.program
@pytest.mark.parametrize("method", ["multi_source", "style_w", "kmeans_w", "mda"])
def test_classes_of_a_mixture_are_equal_in_each_domain_that_is_found_or_known(method, data, tmp_path):
    """In the clusters of which the branch is told a part, too; without any, in the whole mixture."""
    found = {"style_share": 0.5} if method == "mda" else {}
    folder = write_run(small(method, undivided=True, equal_classes=True, **found), tmp_path / "run", data=data)
    lmdb, (numbers,) = folder.train_lmdbs[MIXTURE], drawn(folder).values()
    labels = lmdb_io.read_labels(lmdb)
    domains = lmdb_io.read_labels(folder.domain_labels[MIXTURE])
    if method == "mda":
        domains = np.array([domain == "mnist_train" for domain in read_domains(lmdb)])
    for domain in (0, 1):
        assert_equal(labels[numbers[domains[numbers] == domain]])
    train_all([folder], threads=1)
    assert 0 <= folder.read_record().accuracy <= 1
    alone = write_run(small("mda", undivided=True, equal_classes=True), tmp_path / "alone", data=data)
    assert_equal(labels[drawn(alone)[MIXTURE]])


def test_images_and_domain_labels_are_read_in_step(data, tmp_path):
    """And whoever reads a training set as it is stored meets each image once."""
    folder = write_run(small("style_w", equal_classes=True), tmp_path / "run", data=data)
    numbers, labels = drawn(folder)["mnistm"], lmdb_io.read_labels(folder.train_lmdbs["mnistm"])

    def met(net: caffe.Net, batches: int) -> list[int]:
        found = []
        for _ in range(batches):
            net.forward()
            found += net.blobs["label_mnistm"].data.astype(int).tolist()
            assert len(set(net.blobs["domain_label_mnistm"].data.ravel().tolist())) == 1
        return found

    trained, as_stored = caffe.Net(str(folder.net("train")), caffe.TRAIN), folder.load_net("train", caffe.TRAIN)
    batches = len(numbers) // 8
    assert met(trained, batches) == labels[numbers][: 8 * batches].tolist(), "the digits have no shuffle_seed"
    assert met(as_stored, 6) == labels.tolist()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "no such file, expected numbers of records; write the run"),
        ("1\n48\n", "expected numbers from 0 to 47, of records of mnistm; write the run"),
        ("", "expected numbers from 0 to 47"),
        ("-1\n", "expected numbers from 0 to 47"),
    ],
)
def test_numbers_of_other_records_are_found_before_training(text, message, data, tmp_path):
    folder = write_run(small("dial", equal_classes=True), tmp_path / "run", data=data)
    file = folder.records["mnistm"]
    file.unlink()
    if text is not None:
        file.write_text(text)
    with pytest.raises(ProgramError, match=f"^{re.escape(str(file))}: {message}"):
        preflight(folder)
