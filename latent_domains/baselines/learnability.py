"""How many domains: domain-wise cross-validation (Gong, Grauman, Sha 2013).

The more domains, the more distinctive they are, and the less each teaches. A(K) = Σ_k M_k/M A_k is the accuracy of
classifiers that are trained and cross-validated within each of K domains; the K of the highest A is taken.
"""

import warnings
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics.pairwise import linear_kernel
from sklearn.model_selection import StratifiedKFold
from tqdm import tqdm

from latent_domains.baselines.checks import check_training
from latent_domains.baselines.classifiers import scales, svm

FOLDS = 5


class DomainEstimator(Protocol):
    """What discovers ``n_domains`` domains."""

    n_domains: int
    labels_: NDArray[np.int64]
    assignments_: NDArray[np.float64]

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self: ...


def learnability(X: ArrayLike, y: ArrayLike, domains: NDArray[np.int64], *, seed: int = 0) -> float:
    """A(K), from 0 to 1, of features (n×d) with labels (n) in domains (n).

    It is the share of samples that the classifier of their domain gets right while they are held out. A class with one
    sample in a domain counts as missed there; so do all samples of a domain with a single class.
    """
    X, y = check_training(X, y)
    correct = np.zeros(len(y), bool)
    for domain in np.unique(domains):
        rows = np.flatnonzero(domains == domain)
        folds = min(FOLDS, int(np.bincount(y[rows]).max()))
        if folds < 2 or len(np.unique(y[rows])) < 2:
            continue
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The least populated class", UserWarning)
            splits = list(StratifiedKFold(folds, shuffle=True, random_state=seed).split(rows, y[rows]))
        scale, _ = scales(X[rows], X[rows], "z")
        kernel = linear_kernel(scale(X[rows]))
        for train, held_out in splits:
            if len(np.unique(y[rows[train]])) < 2:
                continue
            classifier = svm().set_params(kernel="precomputed").fit(kernel[np.ix_(train, train)], y[rows[train]])
            predicted = classifier.predict(kernel[np.ix_(held_out, train)])
            correct[rows[held_out]] = predicted == y[rows[held_out]]
    return float(correct.mean())


@dataclass(frozen=True)
class Choice:
    """The estimator whose domains are the most learnable, and A by number of domains."""

    best: DomainEstimator
    learnability: dict[int, float]


def choose_domains(
    estimators: list[DomainEstimator],
    X: ArrayLike,
    y: ArrayLike,
    *,
    seed: int = 0,
    verbose: bool = False,
) -> Choice:
    """Fit each of the estimators and choose one. Of equals the first is taken. Only the source is looked at."""
    found: dict[int, float] = {}
    best = estimators[0]
    bar = tqdm(estimators, desc="number of domains", disable=not verbose)
    for estimator in bar:
        estimator.fit(X, y)
        found[estimator.n_domains] = learnability(X, y, estimator.labels_, seed=seed)
        best = max(best, estimator, key=lambda one: found[one.n_domains])
        bar.set_postfix({f"k={k}": f"{100 * share:.1f} %" for k, share in found.items()})
    return Choice(best, found)
