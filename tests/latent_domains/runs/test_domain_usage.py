import numpy as np
import pytest
from sklearn import metrics

from latent_domains.runs.domain_usage import ari, domain_usage, nmi


def one_hot(columns, k):
    return np.eye(k, dtype=np.float32)[columns]


def test_domains_found_exactly():
    usage = domain_usage({"a": one_hot([1] * 6, 2), "b": one_hot([0] * 6, 2)})
    assert (usage.purity, usage.nmi, usage.share) == (1, pytest.approx(1), [0.5, 0.5])
    assert usage.counts == [[0, 6], [6, 0]]
    assert usage.mean_probability == [[0, 1], [1, 0]]


def test_how_domains_and_classes_share_the_images():
    """Domains of another order are the same domains; classes cross them, or are them."""
    images = {"a": one_hot([1] * 6, 2), "b": one_hot([0] * 6, 2)}
    crossed = domain_usage(images, {"a": np.arange(6) % 2, "b": np.arange(6) % 2}, held_out=True)
    assert (crossed.ari, crossed.nmi_classes, crossed.held_out) == (1, pytest.approx(0), True)
    same = domain_usage(images, {"b": np.full(6, 3), "a": np.full(6, 7)})
    assert (same.nmi_classes, same.held_out) == (pytest.approx(1), False)
    assert domain_usage(images).nmi_classes is None


def test_partly():
    usage = domain_usage({"a": one_hot([0, 0, 0, 1], 2), "b": one_hot([1, 1, 1, 1], 2)})
    assert usage.purity == pytest.approx(7 / 8)
    assert 0 < usage.nmi < 1
    assert usage.images == 8
    # pairs together: 3 + 10 in latent domains, 6 + 6 in true ones, 3 + 6 in both, of 28
    assert usage.ari == pytest.approx((9 - 13 * 12 / 28) / ((13 + 12) / 2 - 13 * 12 / 28))


@pytest.mark.parametrize(
    "counts",
    [
        [[50, 3, 0], [2, 40, 9]],
        [[5, 0], [0, 7], [4, 4]],
        [[6, 6], [3, 3]],
        [[8, 0, 0]],
        [[8], [4]],
        [[1, 1], [0, 0], [1, 1]],
        [[1]],
        [[1, 0], [0, 1]],
        [[2000, 100, 7], [30, 1500, 2], [0, 0, 0]],
    ],
)
def test_scores_are_those_of_scikit_learn(counts):
    counts = np.array(counts)
    pairs = [(i, j) for i, row in enumerate(counts) for j, number in enumerate(row) for _ in range(number)]
    true, found = np.array(pairs).T
    assert nmi(counts) == pytest.approx(metrics.normalized_mutual_info_score(true, found), abs=1e-9)
    assert ari(counts) == pytest.approx(metrics.adjusted_rand_score(true, found), abs=1e-9)
