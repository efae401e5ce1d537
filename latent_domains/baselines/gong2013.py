"""Maximally distinctive domains.

B. Gong, K. Grauman, F. Sha, *Reshaping Visual Datasets for Domain Adaptation*, NIPS 2013.

The mean of a domain's samples in the space of a Gaussian kernel stands for its distribution. With β_mk = z_mk / M_k,
the weight of sample m in the mean of domain k, the total distinctiveness of K domains is

    Σ_{k<k'} (β_k - β_k')ᵀ K (β_k - β_k') = K Σ_k β_kᵀ K β_k - (Σ_k β_k)ᵀ K (Σ_k β_k)

It is maximised over the relaxed β ≥ 0:

    Σ_m β_mk = 1                                     a mean
    1/M ≤ Σ_k β_mk ≤ 1/C                             each sample is in a domain, of C samples (classes) or more
    |Σ_m β_mk y_mc - M_c/M| ≤ δ M_c/M                each domain has the class proportions of the whole (label prior)

and sample m goes to the domain of its largest β_mk. The objective is convex. So its maxima are at vertices of that
polytope, and a linear program on its tangent never lowers it: successive linear programs climb to a local maximum. The
best of several starts is taken.
"""

from dataclasses import KW_ONLY, dataclass
from typing import Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.optimize import linprog
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.metrics.pairwise import rbf_kernel
from tqdm import tqdm

from latent_domains.baselines.checks import Floats, Integers, check_domains, check_training
from latent_domains.baselines.kernels import median_gamma
from latent_domains.common.program import ProgramError

MAX_SAMPLES = 20_000
"""The most samples: their kernel matrix takes 3 GiB, and more would not fit the memory of usual machines."""


@dataclass(eq=False, repr=False)
class DistinctiveDomains(ClusterMixin, BaseEstimator):
    """Assign labelled samples to ``n_domains`` domains that differ as much as the label prior lets them.

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

        Raises ProgramError if features or labels are wrong, if a class has fewer samples than there are domains, or if
        there are more than MAX_SAMPLES samples.
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
        """The vertex β (n×k) with the largest Σ β·``direction``. Raises ProgramError if HiGHS finds none."""
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
