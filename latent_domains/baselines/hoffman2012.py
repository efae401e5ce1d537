"""Constrained hierarchical clustering.

J. Hoffman, B. Kulis, T. Darrell, K. Saenko, *Discovering Latent Domains for Multisource Domain Adaptation*, ECCV 2012.

Within each class there are K local clusters μ_j; K global clusters m_k, the domains, are made of local ones. Minimise

    Σ_i Σ_j Z^L_ij ‖x_i - μ_j‖² + Σ_j Σ_k Z^G_jk ‖μ_j - m_k‖²

so that each sample is in one local cluster of its own class, each local cluster is in one domain, and each domain has
exactly one local cluster of each class. Each step minimises over one of the four, so the objective never rises: Z^L, by
the nearest mean of the class; μ_j, as the mean of its samples and of m_k; Z^G, by the best matching of each class's
clusters with the domains (Hungarian method); m_k, as the mean of its local clusters.
"""

import warnings
from dataclasses import KW_ONLY, dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import euclidean_distances
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from latent_domains.baselines.features import Floats, Integers, check_domains, check_training

TOLERANCE = 1e-6
"""If the objective falls by less than this share in a round, it has converged."""


@dataclass(eq=False, repr=False)
class ConstrainedDomains(ClusterMixin, BaseEstimator):
    """Cluster labelled samples into ``n_domains`` domains, each with one cluster of each class.

    There are ``n_init`` starts (seed ``random_state``) of at most ``max_iter`` rounds.

    After :meth:`fit`: ``labels_`` (n), ``assignments_`` (n×k, one-hot), ``local_means_`` (classes×k×d, by domain),
    ``global_means_`` (k×d), ``objective_`` and ``objectives_``, the objective after each round of the best start.
    """

    n_domains: int = 2
    _: KW_ONLY
    n_init: int = 10
    max_iter: int = 100
    random_state: int = 0

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Discover the domains of features (n×d) with class labels (n).

        Refuses a class with fewer samples than there are domains.
        """
        X, y = check_training(X, y)
        check_domains(self.n_domains, y)
        rng = np.random.default_rng(self.random_state)
        members = [np.flatnonzero(y == label) for label in np.unique(y)]
        classes = [X[rows] for rows in members]
        starts = tqdm(range(self.n_init), desc=f"starts, k={self.n_domains}", leave=False)
        found = (_descend(classes, self.n_domains, self.max_iter, rng) for _ in starts)
        # Classes are small: threads would wait for one another five times as long as they compute.
        with threadpool_limits(1, user_api="openmp"):
            best = min(found, key=lambda descended: descended[-1][-1])
        domains, self.local_means_, self.global_means_, self.objectives_ = best
        self.labels_ = np.empty(len(y), np.int64)
        for rows, labels in zip(members, domains, strict=True):
            self.labels_[rows] = labels
        self.assignments_ = np.eye(self.n_domains)[self.labels_]
        self.objective_ = self.objectives_[-1]
        return self


def _descend(
    classes: list[Floats], k: int, max_iter: int, rng: np.random.Generator
) -> tuple[list[Integers], Floats, Floats, list[float]]:
    """Run one start: return domains of each class's samples, local and global means, objectives.

    Local means (classes×k×d) of each class are in the order of their domains; global means are k×d.
    """
    local = np.stack([_k_means(X, k, rng) for X in classes])
    means = local[rng.integers(len(classes))]  # the local means of a random class
    local, _ = _match(local, means)
    means = local.mean(axis=0)
    objectives: list[float] = []
    while True:
        nearest = [
            euclidean_distances(X, mu, squared=True).argmin(axis=1) for X, mu in zip(classes, local, strict=True)
        ]
        for c, (X, cluster) in enumerate(zip(classes, nearest, strict=True)):
            member = np.eye(k)[cluster]
            local[c] = (member.T @ X + means) / (member.sum(axis=0)[:, None] + 1)
        local, domain_of = _match(local, means)
        domains = [of[cluster] for of, cluster in zip(domain_of, nearest, strict=True)]
        means = local.mean(axis=0)
        within = [np.square(X - mu[d]).sum() for X, mu, d in zip(classes, local, domains, strict=True)]
        objectives.append(float(sum(within) + np.square(local - means).sum()))
        if len(objectives) == max_iter or (
            len(objectives) > 1 and objectives[-2] - objectives[-1] <= TOLERANCE * objectives[-2]
        ):
            return domains, local, means, objectives


def _k_means(X: Floats, k: int, rng: np.random.Generator) -> Floats:
    """Return the k means of one class (k×d)."""
    with warnings.catch_warnings():
        # Fewer distinct samples than clusters: some means coincide, which the objective allows.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return KMeans(k, n_init=1, random_state=int(rng.integers(2**31))).fit(X).cluster_centers_


def _match(local: Floats, means: Floats) -> tuple[Floats, list[Integers]]:
    """Match each class's local means (classes×k×d) with the domains (k×d), one to one and as near as possible.

    Returns the local means in the domains' order, and for each class the domain of each cluster, in the given order.
    """
    domain_of = [linear_sum_assignment(euclidean_distances(mu, means, squared=True))[1] for mu in local]
    return np.stack([mu[np.argsort(of)] for mu, of in zip(local, domain_of, strict=True)]), domain_of
