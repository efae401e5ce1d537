"""Constrained hierarchical clustering on mixtures whose domains are known."""

import itertools

import numpy as np
import pytest

from latent_domains.baselines import ConstrainedDomains
from latent_domains.common.program import ProgramError
from tests.latent_domains.baselines.mixtures import Mixture, mixture


@pytest.fixture(scope="module")
def overlapping() -> Mixture:
    return mixture([[14, 9, 11], [10, 12, 8], [9, 9, 9]], features=6, domains_apart=0.8, seed=2)


def test_hoffman2012_the_constraints_hold(overlapping):
    found = ConstrainedDomains(3).fit(overlapping.X, overlapping.y)
    assert found.local_means_.shape == (3, 3, 6), "one local cluster of each class in each domain"
    # A sample is in the nearest local cluster of its own class.
    for x, label, domain in zip(overlapping.X, overlapping.y, found.labels_, strict=True):
        # The means moved once more after the last assignment, by next to nothing.
        distances = np.linalg.norm(found.local_means_[label] - x, axis=1)
        assert distances[domain] <= distances.min() * 1.01
    # No other matching of a class's clusters with the domains is nearer.
    for means in found.local_means_:
        matched = np.square(means - found.global_means_).sum()
        for order in itertools.permutations(range(3)):
            assert matched <= np.square(means[list(order)] - found.global_means_).sum() + 1e-9
    np.testing.assert_allclose(found.global_means_, found.local_means_.mean(axis=0))
    assert (found.assignments_.sum(axis=1) == 1).all()
    assert np.array_equal(found.assignments_.argmax(axis=1), found.labels_)


def test_hoffman2012_the_objective_is_the_papers_and_never_rises(overlapping):
    found = ConstrainedDomains(3).fit(overlapping.X, overlapping.y)
    local = np.square(overlapping.X - found.local_means_[overlapping.y, found.labels_]).sum()
    assert found.objective_ == pytest.approx(local + np.square(found.local_means_ - found.global_means_).sum())
    for seed in range(5):
        objectives = ConstrainedDomains(3, n_init=1, random_state=seed).fit(overlapping.X, overlapping.y).objectives_
        assert len(objectives) > 1 and (np.diff(objectives) <= 1e-9).all()


def test_hoffman2012_edge_cases():
    data = mixture([[3, 9], [1, 7]], domains_apart=2.0)
    assert (ConstrainedDomains(1).fit(data.X, data.y).labels_ == 0).all()
    assert ConstrainedDomains(4).fit(data.X, data.y).assignments_.shape == (20, 4)
    same = ConstrainedDomains(2).fit(np.ones((8, 3)), np.arange(8) % 2)  # nothing to tell samples by, but no crash
    assert same.objective_ == pytest.approx(0)
    with pytest.raises(ProgramError, match="k: got 5 domains, but class 0 has 4 samples"):
        ConstrainedDomains(5).fit(data.X, data.y)
