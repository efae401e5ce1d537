import numpy as np
import pytest
from caffe.proto.caffe_pb2 import Datum
from hypothesis import given
from hypothesis import strategies as st

from latent_domains.common.program import ProgramError
from latent_domains.data import lmdb_io
from latent_domains.domains.assign import channel_statistics, kmeans_domains
from latent_domains.domains.pictures import random_domains


@given(st.lists(st.integers(0, 100), min_size=1, max_size=4), st.integers(2, 6), st.integers(0, 2**32 - 1))
def test_random_domains_are_balanced_in_every_lmdb(counts, k, seed):
    found = random_domains(counts, k, seed)
    assert [len(labels) for labels in found] == counts
    for labels in found:
        numbers = np.bincount(labels, minlength=k)
        assert len(numbers) == k and numbers.max() - numbers.min() <= 1
    assert all(np.array_equal(a, b) for a, b in zip(found, random_domains(counts, k, seed), strict=True))


def test_each_lmdb_and_each_seed_has_random_domains_of_its_own():
    """MNIST-M is made of MNIST's images, one by one."""
    assert len({labels.tobytes() for seed in (0, 1) for labels in random_domains([70, 70], 2, seed)}) == 4


def write(path, images):
    with lmdb_io.create(path) as (writer, _):
        for i, image in enumerate(images):
            writer.put(str(i), lmdb_io.image_datum(image, 0))
    return path


def test_statistics_are_of_each_channel(tmp_path):
    image = np.zeros((2, 2, 3), np.uint8)
    image[..., 0] = 10
    image[..., 1] = [[0, 4], [0, 4]]
    image[1, 1, 2] = 200
    found = channel_statistics(write(tmp_path / "db", [image]), (3, 2, 2))
    np.testing.assert_allclose(found, [[10, 2, 50, 0, 2, np.sqrt(3) * 50]])


def test_kmeans_divides_all_lmdbs_together(tmp_path):
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


def test_features_are_divided_by_their_early_statistics_alone_each_in_its_own_unit(tmp_path):
    """The final number and a statistic in large units without groups would hide the groups of the last one."""
    rng = np.random.default_rng(0)
    group = rng.integers(0, 2, 80)
    rows = np.stack([1e4 * rng.integers(0, 2, 80), 100 * rng.normal(size=80), group + 0.05 * rng.normal(size=80)], 1)
    lmdbs = [write_features(tmp_path / "a", rows[:50]), write_features(tmp_path / "b", rows[50:])]
    found = np.concatenate(kmeans_domains(lmdbs, (3, 1, 1), 2, 0, early=2)) == group
    assert found.mean() > 0.95 or found.mean() < 0.05
    whole = np.concatenate(kmeans_domains(lmdbs, (3, 1, 1), 2, 0)) == (rows[:, 0] > 0)
    assert whole.all() or not whole.any()
