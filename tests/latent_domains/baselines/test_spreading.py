"""Predictions that are spread over a graph of neighbours."""

import numpy as np
import pytest

from latent_domains.baselines.spreading import ALPHA, NEIGHBOURS, neighbours, smoothness, spread


def two_groups(each: int = 30):
    """Directions around two axes, and the group of each row."""
    rng = np.random.default_rng(0)
    groups = np.repeat([0, 1], each)
    return np.eye(4)[groups] + 0.1 * rng.normal(size=(2 * each, 4)), groups


def test_neighbours_are_the_nearest_others_by_cosine():
    Z, _ = two_groups()
    graph = neighbours(Z).toarray()
    unit = Z / np.linalg.norm(Z, axis=1, keepdims=True)
    cosine = unit @ unit.T
    np.fill_diagonal(cosine, -2)
    for row, near in zip(cosine, graph, strict=True):
        assert set(np.flatnonzero(near)) == set(np.argsort(-row)[:NEIGHBOURS])


def test_neighbours_of_few_samples_are_all_others():
    assert neighbours(np.random.default_rng(0).normal(size=(3, 4))).toarray().tolist() == (1 - np.eye(3)).tolist()


def test_spread_solves_the_fixed_point_of_zhou_and_others():
    Z, _ = two_groups()
    P = np.random.default_rng(1).dirichlet([1, 1, 1], len(Z))
    graph = neighbours(Z)
    A = np.maximum(graph.toarray(), graph.toarray().T)
    scale = np.diag(1 / np.sqrt(A.sum(axis=1)))
    F = np.linalg.solve(np.eye(len(Z)) - ALPHA * scale @ A @ scale, (1 - ALPHA) * P)
    np.testing.assert_allclose(spread(P, graph), F / F.sum(axis=1, keepdims=True), atol=1e-4)


def test_spread_corrects_what_neighbours_contradict():
    Z, groups = two_groups()
    wrong = np.arange(0, len(Z), 6)
    told = groups.copy()
    told[wrong] = 1 - told[wrong]
    found = spread(0.8 * np.eye(2)[told] + 0.1, neighbours(Z))
    assert (found.argmax(axis=1) == groups).all()


def test_smoothness_is_one_where_neighbours_agree():
    Z, groups = two_groups()
    graph = neighbours(Z)
    assert smoothness(np.eye(2)[groups], graph) == pytest.approx(1)
    mixed = np.eye(2)[np.random.default_rng(0).integers(2, size=len(Z))]
    assert 0.3 < smoothness(mixed, graph) < 0.7
