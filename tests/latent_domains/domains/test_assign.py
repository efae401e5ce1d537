"""All ways to give pictures domains, through their one interface."""

from pathlib import Path

import caffe
import numpy as np
import pytest
from caffe.proto.caffe_pb2 import Datum
from hypothesis import given
from hypothesis import strategies as st

from latent_domains.common.program import ProgramError
from latent_domains.data import lmdb_io
from latent_domains.domains.assign import WAYS, channel_statistics, kmeans_domains
from latent_domains.domains.pictures import Pictures, W, random_domains
from latent_domains.runs.outputs import domain_probabilities
from latent_domains.runs.run_folder import RunFolder
from tests.run_folders import small

SOURCES = np.repeat([0, 1], 48)


@pytest.fixture
def images(tiny_data: Path) -> Pictures:
    return Pictures(small("style_w"), tiny_data)


def assign(name: str, images: Pictures, k: int = 2, seed: int = 0, **options: object) -> W:
    """w, which is the same again, has rows that add up to 1 where a domain is known, and is in the pictures' order."""
    w, again = (WAYS[name](images, k, seed, **options) for _ in range(2))
    np.testing.assert_array_equal(w, again)
    assert w.shape == (sum(images.counts), k)
    sums = w.sum(axis=1)
    assert np.all((abs(sums - 1) < 1e-6) | (sums == 0))
    parts = images.by_part(w)
    assert list(parts) == list(images.experiment.task.source_inputs)
    np.testing.assert_array_equal(np.concatenate(list(parts.values())), w)
    return w


def test_known(images):
    assert assign("known", images).argmax(axis=1).tolist() == SOURCES.tolist()
    half, other = (assign("known", images, seed=seed, share=0.5) for seed in (0, 1))
    known = half.any(axis=1)
    assert known[:48].sum() == known[48:].sum() == 24 and (half[known].argmax(axis=1) == SOURCES[known]).all()
    assert (half != other).any()


def test_at_random(images):
    w = assign("at_random", images, 3)
    assert w[:48].sum(axis=0).tolist() == w[48:].sum(axis=0).tolist() == [16] * 3
    assert (w != assign("at_random", images, 3, seed=1)).any()


def test_pixels(images):
    """Gray digits are one cluster, of two; those in colours are in both."""
    w = assign("pixels", images)
    assert len(set(w.argmax(axis=1))) == 2 and set(w.ravel()) == {0, 1}


def test_pictures_style(images):
    found = assign("style", images).argmax(axis=1)
    assert (found == SOURCES).all() or (found != SOURCES).all()
    surest = assign("style", images, share=0.25)
    known = surest.any(axis=1)
    assert known.sum() == 24 and (surest[known].argmax(axis=1) == found[known]).all()
    counted = assign("style", images, counted=True).argmax(axis=1)
    assert (counted == SOURCES).all() or (counted != SOURCES).all()


def test_pictures_from_file(tiny_data, tmp_path):
    file, names = tmp_path / "domains.csv", [*lmdb_io.record_names(tiny_data / "digits" / "mnist_train")]
    names += lmdb_io.record_names(tiny_data / "digits" / "mnistm_train")
    file.write_text("path,a,b\n" + "".join(f"{name},{n / 95:.6f},{1 - n / 95:.6f}\n" for n, name in enumerate(names)))
    images = Pictures(small("multi_source", domains=file), tiny_data)
    np.testing.assert_allclose(assign("from_file", images)[:, 0], np.arange(96) / 95, atol=1e-6)


@pytest.mark.program
def test_branch(trained: RunFolder):
    net = trained.load_net("domains", caffe.TEST, trained.final_snapshot().model)
    images = Pictures(trained.experiment, trained.data_folder)
    w = assign("branch", images, 3, net=net)
    lmdbs = {source: trained.train_lmdbs[source] for source in ("mnist", "mnistm")}
    found, _ = domain_probabilities(trained, trained.final_snapshot().model, lmdbs)
    np.testing.assert_allclose(w, np.concatenate(list(found.values())), atol=1e-6)


@given(st.lists(st.integers(0, 100), min_size=1, max_size=4), st.integers(2, 6), st.integers(0, 2**32 - 1))
def test_random_domains_are_balanced_in_every_lmdb(counts, k, seed):
    found = random_domains(counts, k, seed)
    assert [len(labels) for labels in found] == counts
    for labels in found:
        numbers = np.bincount(labels, minlength=k)
        assert len(numbers) == k and numbers.max() - numbers.min() <= 1
    assert all(np.array_equal(a, b) for a, b in zip(found, random_domains(counts, k, seed), strict=True))


def test_random_domains_each_lmdb_and_each_seed_has_random_domains_of_its_own():
    """MNIST-M is made of MNIST's images, one by one."""
    assert len({labels.tobytes() for seed in (0, 1) for labels in random_domains([70, 70], 2, seed)}) == 4


def write(path, images):
    with lmdb_io.create(path) as (writer, _):
        for i, image in enumerate(images):
            writer.put(str(i), lmdb_io.image_datum(image, 0))
    return path


def test_channel_statistics_statistics_are_of_each_channel(tmp_path):
    image = np.zeros((2, 2, 3), np.uint8)
    image[..., 0] = 10
    image[..., 1] = [[0, 4], [0, 4]]
    image[1, 1, 2] = 200
    found = channel_statistics(write(tmp_path / "db", [image]), (3, 2, 2))
    np.testing.assert_allclose(found, [[10, 2, 50, 0, 2, np.sqrt(3) * 50]])


def test_kmeans_domains_kmeans_divides_all_lmdbs_together(tmp_path):
    """Dark and bright images in both LMDBs: a cluster is the same in each."""
    rng = np.random.default_rng(0)
    bright = [rng.integers(0, 2, 60), rng.integers(0, 2, 30)]
    lmdbs = [
        write(tmp_path / str(n), [rng.integers(120 * b, 120 * b + 90, (8, 8, 3)).astype(np.uint8) for b in which])
        for n, which in enumerate(bright)
    ]
    found = kmeans_domains(lmdbs, (3, 8, 8), 2, 0)
    same = np.concatenate(found) == np.concatenate(bright)
    assert [len(labels) for labels in found] == [60, 30] and (same.all() or not same.any())
    four, again, other = (np.concatenate(kmeans_domains(lmdbs, (3, 8, 8), 4, seed)) for seed in (0, 0, 1))
    assert set(four) == {0, 1, 2, 3} and (four == again).all() and (four != other).any()
    two = write(tmp_path / "two", [np.full((8, 8, 3), i // 10, np.uint8) for i in range(20)])
    with pytest.raises(ProgramError, match=r"k-means: 2 different images in .*two, expected ≥ 3"):
        kmeans_domains([two], (3, 8, 8), 3, 0)


def write_features(path, rows):
    with lmdb_io.create(path) as (writer, _):
        for row in rows:
            writer.put("x", Datum(channels=len(row), height=1, width=1, float_data=row))
    return path


def test_kmeans_domains_features_are_divided_by_their_early_statistics_alone_each_in_its_own_unit(tmp_path):
    """The final number and a statistic in large units without groups would hide the groups of the last one."""
    rng = np.random.default_rng(0)
    group = rng.integers(0, 2, 80)
    rows = np.stack([1e4 * rng.integers(0, 2, 80), 100 * rng.normal(size=80), group + 0.05 * rng.normal(size=80)], 1)
    lmdbs = [write_features(tmp_path / "a", rows[:50]), write_features(tmp_path / "b", rows[50:])]
    found = np.concatenate(kmeans_domains(lmdbs, (3, 1, 1), 2, 0, early=2)) == group
    assert found.mean() > 0.95 or found.mean() < 0.05
    whole = np.concatenate(kmeans_domains(lmdbs, (3, 1, 1), 2, 0)) == (rows[:, 0] > 0)
    assert whole.all() or not whole.any()
