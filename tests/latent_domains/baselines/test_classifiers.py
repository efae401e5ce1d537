"""Adaptation on shifts whose answer is known, and input that no classifier can take."""

import warnings

import numpy as np
import pytest
from sklearn.svm import SVC

from latent_domains.baselines import (
    ConstrainedDomains,
    DistinctiveDomains,
    GeodesicFlowKernel,
    GFKClassifier,
    LatentDomainClassifier,
    SourceClassifier,
    classifiers,
)
from latent_domains.common.program import ProgramError
from latent_domains.experiment.baselines import CLASSIFIERS, NORMALISATIONS, VARIANTS
from tests.latent_domains.baselines.mixtures import Mixture, mixture


def turned(X: np.ndarray, angle: float) -> np.ndarray:
    """Turn features within the planes of axes (0, 1), (2, 3), … by ``angle``."""
    plane = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    return X @ np.kron(np.eye(X.shape[1] // 2), plane)


def shifted(seed: int, *, samples: int = 40) -> tuple[Mixture, Mixture]:
    """A source in a subspace, and a target whose subspace lies 50° away and whose mean is another.

    The classes differ along the even axes; the odd ones hold noise in the source, classes in the target.
    """
    source, target = (mixture([[samples] * 3], features=6, classes_apart=1.5, seed=seed) for _ in range(2))
    rng = np.random.default_rng(seed)
    pad = [np.zeros((len(m.y), 12)) for m in (source, target)]
    for rows, data in zip(pad, (source, target), strict=True):
        rows[:, ::2] = data.X
        rows += 0.3 * rng.normal(size=rows.shape)
    target_X = turned(pad[1], np.deg2rad(50)) + 4.0
    return Mixture(pad[0], source.y, source.domains), Mixture(target_X, target.y, target.domains)


def accuracy(classifier, target: Mixture, *variant: str) -> float:
    return float((classifier.predict(target.X, *variant) == target.y).mean())


def test_predict_the_kernel_beats_no_adaptation_on_a_shift():
    gains = []
    for seed in range(5):
        source, target = shifted(seed)
        plain = accuracy(SourceClassifier().fit(source.X, source.y), target)
        adapted = accuracy(GFKClassifier(n_components=4).fit(source.X, source.y, target.X), target)
        gains.append(adapted - plain)
    assert np.mean(gains) > 0.2, gains


@pytest.mark.parametrize("classifier", ["1nn", "svm", "logistic"])
def test_predict_statistics_of_its_own_undo_a_targets_scale_and_offset(classifier):
    source = mixture([[20, 20, 20]], classes_apart=1.0)
    moved = 3 * source.X + np.linspace(50, 90, source.X.shape[1])
    plain = SourceClassifier(classifier).fit(source.X, source.y)
    own = SourceClassifier(classifier, own_z=True).fit(source.X, source.y, moved)
    assert accuracy(own, Mixture(moved, source.y, source.domains)) == accuracy(plain, source) == 1
    assert accuracy(plain, Mixture(moved, source.y, source.domains)) < 0.7
    as_stored = SourceClassifier(classifier, own_z=True, normalise="none").fit(source.X, source.y, moved)
    assert accuracy(as_stored, Mixture(moved, source.y, source.domains)) < 0.7 and accuracy(as_stored, source) == 1


def test_predict_many_classes_are_told_apart_in_parts_that_fit_the_memory(monkeypatch):
    source = mixture([[20, 20, 20]], classes_apart=1.0)
    plain, kernel = SourceClassifier(), GFKClassifier("svm", n_components=4)
    plain.fit(source.X, source.y)
    kernel.fit(source.X, source.y, source.X)

    def found():
        return plain.predict(source.X), kernel.predict(source.X), kernel.predict_proba(source.X)

    whole, rows = found(), []
    monkeypatch.setattr(classifiers, "MARGINS", 30)  # of ten samples: three classes make three pairs
    real = SVC.decision_function
    monkeypatch.setattr(SVC, "decision_function", lambda svm, X: rows.append(len(X)) or real(svm, X))
    for one, again in zip(whole, found(), strict=True):
        np.testing.assert_allclose(one, again)
    assert rows == 18 * [10]


def two_domains(seed: int = 0) -> tuple[Mixture, Mixture]:
    """Sources of two domains with opposite classes, and a target of the second domain."""
    data = mixture([[40, 40], [40, 40]], features=10, classes_apart=0.0, domains_apart=3.0, seed=seed)
    offset = np.random.default_rng(seed + 100).normal(size=10)
    X = data.X + np.where((data.y == data.domains)[:, None], offset, -offset)
    held_out = np.zeros(len(data.y), bool)
    held_out[np.flatnonzero(data.domains == 1)[::2]] = True
    whole = Mixture(X, data.y, data.domains)
    return whole.take(np.flatnonzero(~held_out)), whole.take(np.flatnonzero(held_out))


@pytest.mark.parametrize("classifier", CLASSIFIERS)
@pytest.mark.parametrize("estimator", [DistinctiveDomains, ConstrainedDomains])
def test_predict_latent_domains_beat_one_domain_where_the_domains_disagree(classifier, estimator):
    source, target = two_domains()
    as_one = accuracy(GFKClassifier(classifier, n_components=4).fit(source.X, source.y, target.X), target)
    domains = estimator(2).fit(source.X, source.y).labels_
    latent = LatentDomainClassifier(classifier, n_components=4).fit(source.X, source.y, target.X, domains)
    for variant in VARIANTS:
        assert accuracy(latent, target, variant) > max(0.9, as_one + 0.2)
    assert (source.domains[domains == latent.nearest_] == 1).mean() > 0.9, "the domain that the target is of"


def test_predict_the_ensemble_is_the_weighted_mean_of_its_classifiers():
    source, target = two_domains()
    latent = LatentDomainClassifier("svm", n_components=3).fit(source.X, source.y, target.X, source.domains)
    each = [
        GFKClassifier("svm", n_components=3).fit(source.X[source.domains == d], source.y[source.domains == d], target.X)
        for d in range(2)
    ]
    found = latent.predict_proba(target.X)
    ends = np.array([classifier.predict_proba(target.X) for classifier in each])
    np.testing.assert_allclose(found.sum(axis=1), 1)
    assert (found >= ends.min(axis=0) - 1e-12).all() and (found <= ends.max(axis=0) + 1e-12).all()
    weight = (found - ends[0])[:, 0] / (ends[1] - ends[0])[:, 0]  # of domain 1, where the classifiers differ
    assert np.median(weight) > 0.8, "the target is of domain 1, and the weights say so"
    one = LatentDomainClassifier(n_components=3).fit(source.X, source.y, target.X, np.zeros(len(source.y), int))
    plain = GFKClassifier(n_components=3).fit(source.X, source.y, target.X)
    assert np.array_equal(one.predict(target.X), plain.predict(target.X)), "of one domain it is the kernel alone"


def test_predict_proba_the_nearest_neighbour_in_the_kernel_is_that_of_its_published_demonstration():
    """Distances x G x - 2 x G x' + x' G x' with G of bases of all components, and the label of the smallest."""
    source, target = shifted(1)
    for normalise in NORMALISATIONS:
        X, X_target = source.X, target.X
        if normalise == "z":
            X, X_target = ((rows - rows.mean(axis=0)) / rows.std(axis=0) for rows in (X, X_target))
        kernel = GeodesicFlowKernel(4).fit(X, X_target)
        G = kernel.map_ @ kernel.map_.T
        square = [np.einsum("ni,ij,nj->n", rows, G, rows) for rows in (X, X_target)]
        distances = square[0][:, None] + square[1] - 2 * X @ G @ X_target.T
        classifier = GFKClassifier(n_components=4, normalise=normalise).fit(source.X, source.y, target.X)
        expected = source.y[distances.argmin(axis=0)]
        assert set(expected) == {0, 1, 2}
        np.testing.assert_array_equal(classifier.predict(target.X), expected)
        np.testing.assert_array_equal(classifier.predict_proba(target.X).argmax(axis=1), expected)


def test_predict_labels_may_be_any_integers_and_a_domain_may_lack_a_class():
    data = mixture([[12, 12, 12], [12, 12, 0]], classes_apart=6.0)
    labels = np.array([3, 70, 900])[data.y]
    latent = LatentDomainClassifier().fit(data.X, labels, data.X, data.domains)
    found = latent.predict_proba(data.X)
    assert found.shape == (60, 3) and np.isfinite(found).all()
    assert (latent.predict(data.X) == labels).mean() > 0.95
    # A domain of one class alone teaches nothing.
    single = np.where(data.y == 0, 5, 0)
    assert LatentDomainClassifier().fit(data.X, labels, data.X, single).domains_ == [0]


GOOD = mixture([[6, 6], [6, 6]], features=4)


@pytest.mark.parametrize(
    ("X", "y", "X_target", "message"),
    [
        (np.where(np.arange(96).reshape(24, 4) == 9, np.nan, GOOD.X), GOOD.y, GOOD.X, "source: Input contains NaN"),
        (GOOD.X, GOOD.y, np.full((3, 4), np.inf), "target: Input contains infinity"),
        (GOOD.X, GOOD.y, GOOD.X[:, :3], "target: 3 features, expected 4 as in the source"),
        (GOOD.X, GOOD.y, GOOD.X[:0], "target: Found array with 0 sample"),
        (GOOD.X, np.zeros(24, int), GOOD.X, "source: all 24 samples are of class 0, expected at least two classes"),
        (GOOD.X, GOOD.y - 1, GOOD.X, "expected a whole number for each of 24 samples"),
        (GOOD.X, GOOD.y.astype(float), GOOD.X, "expected a whole number for each of 24 samples"),
    ],
)
def test_classifiers_bad_input_is_named(X, y, X_target, message):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ProgramError, match=message):
            GFKClassifier().fit(X, y, X_target)
        with pytest.raises(ProgramError, match=message):
            LatentDomainClassifier().fit(X, y, X_target, np.zeros(len(X), int))


def test_predict_bad_settings_and_domains_are_named():
    with pytest.raises(ProgramError, match=r"domains: got shape \(3,\), expected one for each of 24 samples"):
        LatentDomainClassifier().fit(GOOD.X, GOOD.y, GOOD.X, [0, 1, 0])
    with pytest.raises(ProgramError, match="domains: none has samples of two classes"):
        LatentDomainClassifier().fit(GOOD.X, GOOD.y, GOOD.X, GOOD.y)
    with pytest.raises(ProgramError, match="target: 3 features, expected 4 as in the source"):
        SourceClassifier().fit(GOOD.X, GOOD.y).predict(GOOD.X[:, :3])
    latent = LatentDomainClassifier().fit(GOOD.X, GOOD.y, GOOD.X, GOOD.domains)
    with pytest.raises(ProgramError, match="target: 3 features, expected 4 as in the source"):
        latent.predict(GOOD.X[:, :3])
