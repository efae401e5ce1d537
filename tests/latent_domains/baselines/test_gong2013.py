"""Maximally distinctive domains on mixtures whose domains are known."""

import numpy as np
import pytest
from scipy.stats import ortho_group
from sklearn.cluster import KMeans
from sklearn.metrics import normalized_mutual_info_score as nmi
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from latent_domains.baselines import ConstrainedDomains, DistinctiveDomains, choose_domains
from latent_domains.baselines import gong2013 as module
from latent_domains.baselines.classifiers import C
from latent_domains.baselines.features import median_gamma
from latent_domains.baselines.gong2013 import held_out_correct
from latent_domains.common.program import ProgramError
from tests.latent_domains.baselines.mixtures import mixture


@pytest.mark.parametrize(
    ("estimator", "counts"),
    [
        (DistinctiveDomains, [[15, 15, 15], [15, 15, 15]]),
        (DistinctiveDomains, [[30, 30, 30], [10, 10, 10]]),  # domains of other sizes
        (DistinctiveDomains, [[40, 20, 8], [40, 20, 8]]),  # classes of other sizes
        (DistinctiveDomains, [[15, 15, 15], [15, 15, 15], [15, 15, 15]]),
        (ConstrainedDomains, [[30, 30, 30], [10, 10, 10]]),
        (ConstrainedDomains, [[30, 5, 12], [8, 25, 12]]),  # classes of each domain's own frequency: no label prior here
        (ConstrainedDomains, [[15, 15, 15], [15, 15, 15], [15, 15, 15]]),
    ],
)
def test_gong2013_domains_well_apart_are_found_exactly_where_k_means_finds_classes(estimator, counts):
    """K-means is blind to the classes."""
    data = mixture(counts, domains_apart=2.0)
    found = estimator(len(counts)).fit(data.X, data.y)
    assert nmi(data.domains, found.labels_) == pytest.approx(1)
    plain = KMeans(len(counts), n_init=5, random_state=0).fit_predict(data.X)
    assert nmi(data.domains, plain) < 0.2, "the classes dominate"


@pytest.mark.parametrize("estimator", [DistinctiveDomains, ConstrainedDomains])
def test_gong2013_domains_that_overlap_are_found_far_above_chance(estimator):
    data = mixture([[30] * 5, [30] * 5], domains_apart=0.7)
    found = estimator(2).fit(data.X, data.y)
    assert nmi(data.domains, found.labels_) > 0.5
    shuffled = np.random.default_rng(0).permutation(data.domains)
    assert nmi(shuffled, found.labels_) < 0.05


@pytest.mark.parametrize("slack", [0.0, 0.01, 0.1])
@pytest.mark.parametrize("min_samples", [None, 20])
def test_gong2013_beta_satisfies_every_constraint(slack, min_samples):
    data = mixture([[20, 12, 7], [10, 9, 12]], domains_apart=0.5, seed=1)
    found = DistinctiveDomains(2, slack=slack, min_samples=min_samples, n_init=2).fit(data.X, data.y)
    beta, samples = found.beta_, len(data.y)
    assert (beta >= 0).all()
    np.testing.assert_allclose(beta.sum(axis=0), 1, atol=1e-6)
    assert beta.sum(axis=1).min() >= 1 / samples - 1e-6
    assert beta.sum(axis=1).max() <= 1 / (min_samples or 3) + 1e-6
    prior = np.bincount(data.y) / samples
    masses = np.array([beta[data.y == c].sum(axis=0) for c in range(3)])
    assert (np.abs(masses - prior[:, None]) <= slack * prior[:, None] + 1e-6).all()
    np.testing.assert_allclose(found.assignments_.sum(axis=1), 1, atol=1e-12)
    assert np.array_equal(found.assignments_.argmax(axis=1), found.labels_)


def test_median_gamma_the_objective_is_the_distance_of_the_domains_means_and_climbs():
    data = mixture([[12, 12], [12, 12], [12, 12]], domains_apart=0.5)
    found = DistinctiveDomains(3, n_init=3).fit(data.X, data.y)
    kernel = rbf_kernel(data.X, gamma=median_gamma(data.X, np.random.default_rng(0)))
    pairs = [(0, 1), (0, 2), (1, 2)]
    apart = [found.beta_[:, a] - found.beta_[:, b] for a, b in pairs]
    assert found.objective_ == pytest.approx(sum(float(d @ kernel @ d) for d in apart))
    assert len(found.objectives_) > 1 and (np.diff(found.objectives_) > 0).all()
    more = DistinctiveDomains(3, n_init=6).fit(data.X, data.y)  # the same starts and three more
    assert more.objective_ >= found.objective_


@pytest.mark.parametrize(("estimator", "scale"), [(DistinctiveDomains, 3), (ConstrainedDomains, 1)])
def test_gong2013_rotation_scale_and_order_change_nothing(estimator, scale):
    """Hoffman's objective adds distances of two kinds, so a scale is another balance."""
    data = mixture([[12, 12, 12], [12, 12, 12]], features=8, domains_apart=2.0)
    expected = estimator(2).fit(data.X, data.y).labels_
    rotation = ortho_group.rvs(8, random_state=0)
    turned = estimator(2).fit(scale * data.X @ rotation + 5, data.y).labels_
    assert nmi(expected, turned) == pytest.approx(1)
    order = np.random.default_rng(0).permutation(len(data.y))
    shuffled = estimator(2).fit(data.X[order], data.y[order]).labels_
    assert nmi(expected[order], shuffled) == pytest.approx(1)
    assert np.array_equal(estimator(2).fit(data.X, data.y).labels_, expected), "the seed decides"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_domains": 0}, "k: got 0, expected at least 1"),
        ({"n_domains": 11}, "k: got 11 domains, but class 0 has 10 samples: expected at least one of each"),
        ({}, "source: 20 samples, expected at most 19 for the kernel matrix"),
        ({"min_samples": 11}, r"got at least 11, expected at least 1 and at most 10 \(20 samples in 2 domains\)"),
    ],
)
def test_gong2013_wrong_settings_and_too_many_samples_are_refused(settings, message, monkeypatch):
    data = mixture([[5, 5], [5, 5]])
    monkeypatch.setattr(module, "MAX_SAMPLES", 19)
    with pytest.raises(ProgramError, match=message):
        DistinctiveDomains(**settings).fit(data.X, data.y)


def test_held_out_correct_it_is_the_accuracy_within_each_domain_weighted_by_size():
    data = mixture([[20, 20, 20], [10, 10, 10]], classes_apart=0.4, domains_apart=2.0)
    found = held_out_correct(data.X, data.y, data.domains).mean()
    expected = 0.0
    for domain in range(2):
        rows = data.domains == domain
        # A plain linear SVM on rows of unit mean square; the scaler is fitted within the folds, a small difference.
        classifier = make_pipeline(StandardScaler(), SVC(kernel="linear", C=C / 20))
        folds = StratifiedKFold(5, shuffle=True, random_state=0)
        expected += rows.mean() * cross_val_score(classifier, data.X[rows], data.y[rows], cv=folds).mean()
    assert 0.4 < expected < 0.95, "neither trivial nor hopeless"
    assert found == pytest.approx(expected, abs=0.06)


def test_held_out_correct_domains_too_small_to_learn_from_count_as_missed():
    data = mixture([[10, 10], [10, 10]], classes_apart=8.0)
    alone = np.arange(40)
    assert held_out_correct(data.X, data.y, alone).mean() == 0, "one sample each"
    assert held_out_correct(data.X, data.y, data.y).mean() == 0, "one class each"
    assert held_out_correct(data.X, data.y, np.zeros(40, int)).mean() == 1
    # A domain with one sample of each class beside one that can be learned.
    pair = [np.flatnonzero(data.y == c)[0] for c in range(2)]
    domains = np.zeros(40, int)
    domains[pair] = 1
    assert held_out_correct(data.X, data.y, domains).mean() == pytest.approx(38 / 40)
    # One sample of a class beside 20 of the other: it is missed, and so is the fold with it, a fifth, where no second
    # class is left to train on. The rest of the first class is a domain of one class.
    domains = np.zeros(40, int)
    domains[np.flatnonzero(data.y == 0)[1:]] = 1
    assert held_out_correct(data.X, data.y, domains).mean() == pytest.approx(16 / 40)


@pytest.mark.parametrize("estimator", [DistinctiveDomains, ConstrainedDomains])
def test_held_out_correct_the_most_learnable_number_is_taken(estimator):
    """Two domains with opposite classes: learnable apart, not together, and in pieces only from fewer samples."""
    data = mixture([[24, 24], [24, 24]], features=40, classes_apart=0.0, domains_apart=2.0, seed=1)
    offset = 0.4 * np.resize([1, -1], 40)
    X = data.X + np.where((data.y == data.domains)[:, None], offset, -offset)
    choice = choose_domains([estimator(k, n_init=2) for k in (1, 2, 8)], X, data.y)
    best, found = choice.best, choice.learnability
    assert list(found) == [1, 2, 8] and 1 not in choice.equals
    assert best.n_domains == max(found, key=found.__getitem__) == 2
    assert found[1] < 0.6 and found[2] > found[8] + 0.02
    assert found[2] == held_out_correct(X, data.y, best.labels_).mean()


def test_gong2013_of_equals_the_fewest_domains_are_taken():
    data = mixture([[24, 24], [24, 24]], classes_apart=3.0, domains_apart=2.0)
    choice = choose_domains([ConstrainedDomains(k, n_init=2) for k in (2, 3)], data.X, data.y)
    assert choice.learnability == {2: 1.0, 3: 1.0} and choice.best.n_domains == 2 and choice.equals == [3]
