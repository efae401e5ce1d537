"""Records that are read so that classes have equal shares."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from latent_domains.data.equal_classes import equal_classes, write_numbers


def test_each_class_is_read_as_often_as_the_largest():
    labels = np.array([0, 3, 0, 2, 3, 0, 3, 0, 0])
    (numbers,) = equal_classes([labels], [np.zeros(9, int)])
    assert np.bincount(numbers).tolist() == [1, 2, 1, 5, 2, 1, 1, 1, 1]
    assert np.bincount(labels[numbers]).tolist() == [5, 0, 5, 5]


def test_lmdbs_of_one_domain_each_are_drawn_by_themselves():
    labels = [np.array([0, 0, 0, 1]), np.array([1, 1, 2])]
    found = equal_classes(labels, [np.full(len(one), number) for number, one in enumerate(labels)])
    assert [np.bincount(one[numbers]).tolist() for one, numbers in zip(labels, found, strict=True)] == [
        [3, 3],
        [0, 2, 2],
    ]


def shares(labels, domains, found):
    """Of each class in each domain, in batches with as many rows of each LMDB."""
    table = np.zeros((1 + max(map(max, domains)), 1 + max(map(max, labels))))
    for of_class, of_domain, numbers in zip(labels, domains, found, strict=True):
        np.add.at(table, (of_domain[numbers], of_class[numbers]), 1 / len(numbers))
    return table / len(found)


@given(st.integers(0, 2**32 - 1))
def test_in_one_mixture_classes_have_equal_shares_in_each_domain_and_domains_keep_theirs(seed):
    rng = np.random.default_rng(seed)
    labels, domains = rng.integers(0, 4, 400), rng.integers(0, 3, 400)
    labels[domains == 1] = labels[domains == 1] // 2  # a domain without some classes
    (numbers,) = found = equal_classes([labels], [domains])
    assert set(numbers) == set(range(400))
    table = shares([labels], [domains], found)
    for row in table:
        there = row[row > 0]
        np.testing.assert_allclose(there, there.mean(), rtol=0.05)  # whole records
    np.testing.assert_allclose(table.sum(axis=1), np.bincount(domains) / 400, atol=0.01)


def test_domains_across_lmdbs():
    """Two LMDBs with the classes in opposite shares, each with some of both domains."""
    labels = [np.repeat([0, 1], [60, 20]), np.repeat([0, 1], [10, 70])]
    domains = [np.tile([0, 0, 0, 1], 20), np.tile([1, 1, 1, 0], 20)]
    table = shares(labels, domains, equal_classes(labels, domains))
    np.testing.assert_allclose(table[:, 0], table[:, 1], atol=0.06)
    np.testing.assert_allclose(table.sum(axis=1), 0.5, atol=0.06)


def test_numbers_are_written_in_an_order_that_the_seed_draws(tmp_path):
    numbers = np.arange(20)
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        write_numbers(tmp_path / "records" / name, numbers, seed)
    a, b, c = ((tmp_path / "records" / name).read_text() for name in "abc")
    assert a == b != c and sorted(map(int, a.split())) == numbers.tolist() and a.count("\n") == 20
