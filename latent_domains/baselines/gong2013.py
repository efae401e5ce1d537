"""Maximally distinctive domains.

B. Gong, K. Grauman, F. Sha, *Reshaping Visual Datasets for Domain Adaptation*, NIPS 2013.

The mean of a domain's samples in the space of a Gaussian kernel represents its distribution. With β_mk = z_mk / M_k,
the weight of sample m in the mean of domain k, the total distinctiveness of K domains is

    Σ_{k<k'} (β_k - β_k')ᵀ K (β_k - β_k') = K Σ_k β_kᵀ K β_k - (Σ_k β_k)ᵀ K (Σ_k β_k)

It is maximised over the relaxed β ≥ 0:

    Σ_m β_mk = 1                                     a mean
    1/M ≤ Σ_k β_mk ≤ 1/C                             each sample is in a domain, of C samples (classes) or more
    |Σ_m β_mk y_mc - M_c/M| ≤ δ M_c/M                each domain has the class proportions of the whole (label prior)

and sample m goes to the domain of its largest β_mk. The objective is convex. So its maxima are at vertices of that
polytope, and a linear program on its tangent never lowers it: successive linear programs climb to a local maximum. The
best of several starts is used.

How many domains: domain-wise cross-validation, in the same paper. With more domains, each is more distinctive but has
less to learn from. A(K) = Σ_k M_k/M A_k is the accuracy of classifiers that are trained and cross-validated within each
of K domains. The K with the highest A is used.
"""

import warnings
from dataclasses import KW_ONLY, dataclass
from typing import Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linprog
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.metrics.pairwise import linear_kernel, rbf_kernel
from sklearn.model_selection import StratifiedKFold
from tqdm import tqdm

from latent_domains.baselines.classifiers import scales, untrained
from latent_domains.baselines.features import Floats, Integers, check_domains, check_training, median_gamma
from latent_domains.baselines.hoffman2012 import ConstrainedDomains
from latent_domains.common.program import ProgramError

MAX_SAMPLES = 20_000
"""The most samples: their kernel matrix needs 3 GiB, and more would not fit the memory of usual machines."""


@dataclass(eq=False, repr=False)
class DistinctiveDomains(ClusterMixin, BaseEstimator):
    """Assign labelled samples to ``n_domains`` domains that differ as much as the label prior allows.

    ``slack`` is the paper's δ. ``min_samples`` is the fewest samples of a domain (None: the number of classes, as in
    the paper; with more, a few outliers cannot make up most of a domain's mean, docs/baselines.md). There are
    ``n_init`` starts (seed ``random_state``) of at most ``max_iter`` linear programs.

    After :meth:`fit`: ``beta_`` (n×k), ``assignments_`` (n×k, rows sum to 1), ``labels_`` (n), ``objective_`` and
    ``objectives_``, the objective after each linear program of the best start.
    """

    n_domains: int = 2
    _: KW_ONLY
    slack: float = 0.01
    min_samples: int | None = None
    n_init: int = 5
    max_iter: int = 100
    random_state: int = 0

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Discover the domains of features (n×d) with class labels (n).

        Refuses a class with fewer samples than there are domains, and more than MAX_SAMPLES samples.
        """
        X, y = check_training(X, y)
        check_domains(self.n_domains, y)
        fewest = len(np.unique(y)) if self.min_samples is None else self.min_samples
        if not 1 <= fewest <= len(X) // self.n_domains:
            raise ProgramError(
                f"samples of a domain: got at least {fewest}, expected at least 1 and at most "
                f"{len(X) // self.n_domains} ({len(X)} samples in {self.n_domains} domains)"
            )
        if len(X) > MAX_SAMPLES:
            raise ProgramError(f"source: {len(X)} samples, expected at most {MAX_SAMPLES} for the kernel matrix")
        rng = np.random.default_rng(self.random_state)
        if self.n_domains == 1:
            return self._set(np.full((len(X), 1), 1 / len(X)), [0.0])
        kernel = rbf_kernel(X, gamma=median_gamma(X, rng))
        polytope = Polytope(y, self.n_domains, self.slack, fewest)
        starts = tqdm(range(self.n_init), desc=f"starts, k={self.n_domains}", leave=False)
        found = (self._climb(kernel, polytope, rng.normal(size=(len(X), self.n_domains))) for _ in starts)
        return self._set(*max(found, key=lambda climbed: climbed[1][-1]))

    def _climb(self, kernel: Floats, polytope: "Polytope", direction: Floats) -> tuple[Floats, list[float]]:
        """Begin at the vertex farthest in ``direction`` (n×k) and go to other vertices while the objective rises."""
        beta = best = polytope.farthest(direction)
        objectives: list[float] = []
        while True:
            means = kernel @ beta
            objective = self.n_domains * np.sum(beta * means) - beta.sum(axis=1) @ means.sum(axis=1)
            if objectives and objective <= objectives[-1] * (1 + 1e-9):
                return best, objectives
            best = beta
            objectives.append(float(objective))
            if len(objectives) == self.max_iter:
                return best, objectives
            beta = polytope.farthest(2 * (self.n_domains * means - means.sum(axis=1, keepdims=True)))

    def _set(self, beta: Floats, objectives: list[float]) -> Self:
        self.beta_ = beta
        self.assignments_ = beta / beta.sum(axis=1, keepdims=True)
        self.labels_ = beta.argmax(axis=1)
        self.objective_, self.objectives_ = objectives[-1], objectives
        return self


class Polytope:
    """The β that the constraints allow, for samples of classes ``y`` (n) in domains of at least ``fewest`` samples."""

    def __init__(self, y: Integers, n_domains: int, slack: float, fewest: int) -> None:
        samples, (classes, index) = len(y), np.unique(y, return_inverse=True)
        prior = np.bincount(index) / samples
        # β is flattened domain by domain.
        each_domain = sp.identity(n_domains)
        of_class = sp.csr_matrix((np.ones(samples), (index, np.arange(samples))), shape=(len(classes), samples))
        self._masses = sp.kron(each_domain, of_class)
        self._rows = sp.kron(np.ones((1, n_domains)), sp.identity(samples))
        self._sums = sp.kron(each_domain, np.ones((1, samples))).tocsr()
        self._left = sp.vstack([self._masses, -self._masses, self._rows, -self._rows]).tocsr()
        self._right = np.concatenate(
            [
                np.tile((1 + slack) * prior, n_domains),
                np.tile(-(1 - slack) * prior, n_domains),
                np.full(samples, 1 / fewest),
                np.full(samples, -1 / samples),
            ]
        )
        self._shape = (n_domains, samples)

    def farthest(self, direction: Floats) -> Floats:
        """Return the vertex β (n×k) with the largest Σ β·``direction``."""
        found = linprog(
            -(direction / np.abs(direction).max()).T.ravel(),
            A_ub=self._left,
            b_ub=self._right,
            A_eq=self._sums,
            b_eq=np.ones(self._shape[0]),
            method="highs",
        )
        if found.x is None:
            raise ProgramError(f"the linear program of {self._shape[0]} domains failed: {found.message}")
        return np.clip(found.x.reshape(self._shape).T, 0, None)


FOLDS = 5


def held_out_correct(X: ArrayLike, y: ArrayLike, domains: Integers, *, seed: int = 0) -> NDArray[np.bool_]:
    """Return which samples (n) their domain's classifier predicts correctly when held out; their share is A(K).

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
    """The estimator with the most learnable domains, and A by number of domains; None if there was no choice.

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
    """Say whether the mean difference of two rows (n) is within two standard errors of 0."""
    difference = right.astype(float) - other
    return bool(abs(difference.mean()) <= 2 * difference.std() / np.sqrt(len(difference)))
