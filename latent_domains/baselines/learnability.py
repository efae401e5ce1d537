"""How many domains: domain-wise cross-validation (Gong, Grauman, Sha 2013).

With more domains, each is more distinctive but has less to learn from. A(K) = Σ_k M_k/M A_k is the accuracy of
classifiers that are trained and cross-validated within each of K domains. The K with the highest A is taken.
"""

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics.pairwise import linear_kernel
from sklearn.model_selection import StratifiedKFold
from tqdm import tqdm

from latent_domains.baselines.checks import Integers, check_training
from latent_domains.baselines.classifiers import scales, untrained
from latent_domains.baselines.gong2013 import DistinctiveDomains
from latent_domains.baselines.hoffman2012 import ConstrainedDomains

FOLDS = 5


def held_out_correct(X: ArrayLike, y: ArrayLike, domains: Integers, *, seed: int = 0) -> NDArray[np.bool_]:
    """Which samples (n) their domain's classifier gets right while they are held out; their share is A(K).

    A class with one sample in a domain counts as wrong there, since nothing is left to learn it from. So do all samples
    of a domain that has only such classes, or a single class.
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
            classifier = untrained("svm").set_params(kernel="precomputed")
            classifier.fit(kernel[np.ix_(train, train)], y[rows[train]])
            correct[rows[held_out]] = classifier.predict(kernel[np.ix_(held_out, train)]) == y[rows[held_out]]
    return correct


@dataclass(frozen=True)
class Choice:
    """The estimator whose domains are the most learnable, and A by number of domains; None if there was no choice.

    ``equals`` are other numbers whose A is not clearly lower than the best: the mean difference over samples is within
    two standard errors of 0.
    """

    best: DistinctiveDomains | ConstrainedDomains
    learnability: dict[int, float] | None = None
    equals: list[int] | None = None


def choose_domains(
    estimators: list[DistinctiveDomains] | list[ConstrainedDomains], X: ArrayLike, y: ArrayLike, *, seed: int = 0
) -> Choice:
    """Fit each of the estimators and choose one, of equal ones the first. It uses only the source."""
    right: dict[int, NDArray[np.bool_]] = {}
    best = estimators[0]
    bar = tqdm(estimators, desc="number of domains")
    for estimator in bar:
        estimator.fit(X, y)
        k = estimator.n_domains
        right[k] = held_out_correct(X, y, estimator.labels_, seed=seed)
        if right[k].mean() > right[best.n_domains].mean():
            best = estimator
        bar.set_postfix({f"k={k}": f"{100 * found.mean():.1f} %" for k, found in right.items()})
    equals = [
        k for k, found in right.items() if k != best.n_domains and _indistinguishable(right[best.n_domains], found)
    ]
    return Choice(best, {k: float(found.mean()) for k, found in right.items()}, equals)


def _indistinguishable(right: NDArray[np.bool_], other: NDArray[np.bool_]) -> bool:
    """Whether the mean difference of two rows (n) is within two standard errors of 0."""
    difference = right.astype(float) - other
    return bool(abs(difference.mean()) <= 2 * difference.std() / np.sqrt(len(difference)))
