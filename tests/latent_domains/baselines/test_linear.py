"""Linear classifiers of standardised features."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from latent_domains.baselines.linear import (
    ALPHA,
    EPS,
    NEIGHBOURS,
    LinearHead,
    neighbours,
    smoothness,
    spread,
    standardised,
)


def blobs(classes: int, each: int = 40, width: int = 6):
    rng = np.random.default_rng(classes)
    centres = 2 * rng.normal(size=(classes, width))
    labels = np.repeat(np.arange(classes), each)
    return standardised(centres[labels] + rng.normal(size=(len(labels), width))), labels


def test_standardised_is_what_the_mda_layer_does():
    X = np.random.default_rng(0).normal(3, 2, (50, 4))
    X[:, 2] = 7  # a dead feature
    Z = standardised(X)
    np.testing.assert_allclose(Z.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(Z.var(axis=0), [1, 1, 0, 1], atol=1e-4)
    np.testing.assert_allclose(Z[0, 0], (X[0, 0] - X[:, 0].mean()) / np.sqrt(X[:, 0].var() + EPS))


@pytest.mark.parametrize("classes", [2, 5])
def test_fit_is_logistic_regression(classes):
    Z, labels = blobs(classes)
    head = LinearHead.fit(Z, labels, classes)
    other = LogisticRegression(C=10, max_iter=1000).fit(Z / np.sqrt(Z.shape[1]), labels)
    assert head.weights.shape == (classes, Z.shape[1]) and head.bias.shape == (classes,)
    expected = other.predict_proba(Z / np.sqrt(Z.shape[1]))
    np.testing.assert_allclose(head.probabilities(Z), expected, atol=1e-6)


def test_fit_never_predicts_a_class_that_it_has_not_seen():
    Z, labels = blobs(3)
    found = LinearHead.fit(Z, labels + (labels > 0), 5).probabilities(Z)
    assert found.shape == (len(Z), 5) and not found[:, [1, 4]].any()
    np.testing.assert_allclose(found.sum(axis=1), 1)


def test_fit_one_class_is_predicted_everywhere():
    Z, _ = blobs(3)
    soft = np.eye(4)[np.full(len(Z), 2)]
    np.testing.assert_allclose(LinearHead.fit(Z, np.full(len(Z), 2), 4).probabilities(Z), soft, atol=1e-12)
    np.testing.assert_allclose(LinearHead.distil(Z, soft).of_raw(3 * Z).probabilities(Z), soft, atol=1e-12)


def test_distil_of_sure_labels_is_fit_and_of_soft_ones_lies_between():
    Z, labels = blobs(3)
    sure = np.eye(3)[labels]
    np.testing.assert_allclose(
        LinearHead.distil(Z, sure).probabilities(Z), LinearHead.fit(Z, labels, 3).probabilities(Z), atol=1e-4
    )
    soft = LinearHead.distil(Z, 0.7 * sure + 0.1).probabilities(Z)
    assert (soft.argmax(axis=1) == labels).mean() > 0.95
    assert soft.max(axis=1).mean() == pytest.approx(0.8, abs=0.05)


def test_of_standardised_and_of_raw_are_the_same_classifier():
    X, rng = np.random.default_rng(0).normal(3, 2, (50, 4)), np.random.default_rng(1)
    raw = LinearHead(rng.normal(size=(3, 4)), rng.normal(size=3))
    head = raw.of_standardised(X)
    np.testing.assert_allclose(head.probabilities(standardised(X)), raw.probabilities(X), atol=1e-12)
    np.testing.assert_allclose(head.of_raw(X).weights, raw.weights)
    np.testing.assert_allclose(head.of_raw(X).bias, raw.bias)


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
