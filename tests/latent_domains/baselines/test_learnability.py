"""The number of domains by domain-wise cross-validation."""

import numpy as np
import pytest
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from latent_domains.baselines import ConstrainedDomains, DistinctiveDomains, choose_domains
from latent_domains.baselines.classifiers import C
from latent_domains.baselines.learnability import held_out_correct
from tests.latent_domains.baselines.mixtures import mixture


def test_it_is_the_accuracy_within_each_domain_weighted_by_size():
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


def test_domains_too_small_to_learn_from_count_as_missed():
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
def test_the_most_learnable_number_is_taken(estimator):
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


def test_of_equals_the_fewest_domains_are_taken():
    data = mixture([[24, 24], [24, 24]], classes_apart=3.0, domains_apart=2.0)
    choice = choose_domains([ConstrainedDomains(k, n_init=2) for k in (2, 3)], data.X, data.y)
    assert choice.learnability == {2: 1.0, 3: 1.0} and choice.best.n_domains == 2 and choice.equals == [3]
