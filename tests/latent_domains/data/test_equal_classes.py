"""Records that are read so that classes have equal shares."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latent_domains.common.program import ProgramError
from latent_domains.data import lmdb_io
from latent_domains.data.equal_classes import check_numbers, equal_classes, write_numbers


def test_equal_classes_each_class_is_read_as_often_as_the_largest():
    labels = np.array([0, 3, 0, 2, 3, 0, 3, 0, 0])
    numbers = equal_classes(labels, np.zeros(9, int))
    assert np.bincount(numbers).tolist() == [1, 2, 1, 5, 2, 1, 1, 1, 1]
    assert np.bincount(labels[numbers]).tolist() == [5, 0, 5, 5]


@given(st.integers(0, 2**32 - 1))
def test_equal_classes_classes_have_equal_shares_in_each_domain_and_domains_keep_theirs(seed):
    rng = np.random.default_rng(seed)
    labels, domains = rng.integers(0, 4, 400), rng.integers(0, 3, 400)
    labels[domains == 1] = labels[domains == 1] // 2  # a domain without some classes
    numbers = equal_classes(labels, domains)
    assert set(numbers) == set(range(400))
    table = np.zeros((3, 4))
    np.add.at(table, (domains[numbers], labels[numbers]), 1 / len(numbers))
    for row in table:
        there = row[row > 0]
        np.testing.assert_allclose(there, there.mean(), rtol=0.05)  # whole records
    np.testing.assert_allclose(table.sum(axis=1), np.bincount(domains) / 400, atol=0.01)


@pytest.fixture
def images(tmp_path):
    with lmdb_io.create(tmp_path / "images") as (writer, _):
        for label in range(20):
            writer.put("x", lmdb_io.image_datum(np.full((1, 1, 1), label, np.uint8), label))
    return tmp_path / "images"


def test_check_numbers_numbers_are_written_in_an_order_that_the_seed_draws(images, tmp_path):
    numbers, files = np.arange(20), [tmp_path / "records" / name / "numbers.txt" for name in "abc"]
    for file, seed in zip(files, ([0, 1], [0, 1], [0, 2]), strict=True):
        write_numbers(file, numbers, seed, images)
        check_numbers(file, images, "make it again")
    a, b, c = (file.read_text() for file in files)
    assert a == b != c and sorted(map(int, a.split())) == numbers.tolist() and a.count("\n") == 20


BAD = [b"", b"1\n20\n", b"-1\n", b"1\n\xe9\n", b"1" + 5000 * b"0", b"1.5\n"]


@pytest.mark.parametrize("text", BAD, ids=range(len(BAD)))
def test_check_numbers_numbers_that_are_none(text, images, tmp_path):
    file = tmp_path / "records" / "numbers.txt"
    write_numbers(file, np.arange(20), [0], images)
    file.write_bytes(text)
    message = f"^{file}: expected numbers from 0 to 19, of records of images; make it again$"
    with pytest.raises(ProgramError, match=message):
        check_numbers(file, images, "make it again")


def test_check_numbers_numbers_of_the_records_that_were_there_before(images, tmp_path):
    file = tmp_path / "records" / "numbers.txt"
    write_numbers(file, np.arange(20), [0], images)
    with lmdb_io.create(tmp_path / "other") as (writer, _):
        for key, datum in list(lmdb_io.read(images))[::-1]:
            writer.put(lmdb_io.record_name(key), datum)
    (images / "data.mdb").write_bytes((tmp_path / "other" / "data.mdb").read_bytes())
    message = f"^{file.parent}: it was made of other records than are now in {images}; make it again"
    with pytest.raises(ProgramError, match=message):
        check_numbers(file, images, "make it again")
