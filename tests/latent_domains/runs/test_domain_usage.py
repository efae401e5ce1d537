import numpy as np
import pytest

from latent_domains.runs.domain_usage import domain_usage


def one_hot(columns, k):
    return np.eye(k, dtype=np.float32)[columns]


def test_domains_found_exactly():
    usage = domain_usage({"a": one_hot([1] * 6, 2), "b": one_hot([0] * 6, 2)})
    assert (usage.purity, usage.nmi, usage.share) == (1, pytest.approx(1), [0.5, 0.5])
    assert usage.counts == [[0, 6], [6, 0]]
    assert usage.mean_probability == [[0, 1], [1, 0]]


def test_everything_in_one_domain():
    usage = domain_usage({"a": one_hot([0] * 6, 3), "b": one_hot([0] * 6, 3)})
    assert (usage.purity, usage.nmi, usage.share) == (0.5, pytest.approx(0), [1, 0, 0])


def test_partly():
    usage = domain_usage({"a": one_hot([0, 0, 0, 1], 2), "b": one_hot([1, 1, 1, 1], 2)})
    assert usage.purity == pytest.approx(7 / 8)
    assert 0 < usage.nmi < 1
    assert usage.images == 8
