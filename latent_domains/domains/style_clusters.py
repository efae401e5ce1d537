"""Clusters of pictures by their style: k-means of statistics, in which the class is a nuisance.

A picture i of class y and latent domain z is taken for x_i = a_y + b_z + noise. x are means of the channels of a
pretrained net's middle stages, which tell style and content. For given z both effects come by least squares, and then z
is the nearest domain effect, by turns. At the end EM learns the covariance of the noise and gives probabilities.

How this was chosen, and what it finds: results/discovery/README.md. Clusters of statistics of style are known from
Matsuura and Harada (AAAI 2020), without the class.
"""

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

DIRECTIONS = 50
"""Principal directions of the statistics that are kept, if there are enough pictures."""

PICTURES_A_DIRECTION = 8

FLATTEN = 1 / 4
"""Each direction is divided by this power of its variance: 0 changes nothing, 1/2 makes all variances 1."""

STARTS = 10
"""The best of so many beginnings is kept."""

TURNS = 100
"""At most; they end when nothing changes, mostly after 5 to 30."""

SHRINKAGE = 0.05
"""Of the noise's covariance towards a multiple of the identity."""

Rows = NDArray[np.float64]
Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Directions:
    """Principal directions of pictures: ``scores`` (n×p), and the ``variance`` (p) of each within the classes."""

    scores: Rows
    variance: NDArray[np.float64]

    @property
    def flattened(self) -> Rows:
        """The scores, so that strong directions count for less than their variance."""
        return self.scores / (self.variance / self.variance[0]) ** FLATTEN


def directions(rows: Rows, classes: Numbers) -> Directions:
    """Return the directions in which ``rows`` (n×f), each column standardised,
    vary most within ``classes`` (n, from 0).
    """
    rows = standardised(rows)
    rest = rows - effects(rows, classes, np.ones((len(rows), 1)))[0][classes]
    kept = max(1, min(DIRECTIONS, len(rows) // PICTURES_A_DIRECTION, rows.shape[1]))
    variance, vectors = np.linalg.eigh(rest.T @ rest / len(rows))
    variance, vectors = variance[::-1][:kept], vectors[:, ::-1][:, :kept]
    some = variance > 1e-9 * variance[0]
    some[0] = True
    return Directions(rows @ vectors[:, some], np.maximum(variance[some], 1e-30))


def standardised(rows: Rows) -> Rows:
    """Return the rows (n×f) with mean 0 and variance 1 in each column; a column without variance is 0."""
    deviations = rows.std(axis=0)
    return (rows - rows.mean(axis=0)) / np.where(deviations > 1e-9 * deviations.max(), deviations, np.inf)


def log_probabilities(rows: Rows, classes: Numbers, k: int, seed: int) -> Rows:
    """Return the logarithm of each of ``k`` latent domains' probability for each picture (n×k).

    ``rows`` (n×f) are the pictures' statistics, ``classes`` (n) numbers from 0, all 0 if they are not known.
    """
    found = directions(rows, classes)
    domains = _with_lone_classes(found.flattened, classes, by_turns(found.flattened, classes, k, seed), k)
    return _expectation_maximisation(found.scores, classes, np.eye(k)[domains])


def effects(rows: Rows, classes: Numbers, weights: Rows) -> tuple[Rows, Rows]:
    """Effects of the classes (C×p) and of the domains (k×p), by least squares: rows ≈ class effect + domain effect.

    ``weights`` (n×k) say how much each picture is in each domain. The domains' effects have mean 0 over the pictures.
    """
    shares = _sums(weights, classes)  # pictures of each class in each domain
    in_class, in_domain = np.maximum(shares.sum(axis=1, keepdims=True), 1e-12), weights.sum(axis=0)
    means, within = _sums(rows, classes) / in_class, shares / in_class
    # Without the effects of the classes, k equations are left. One of them says nothing: all effects may move together.
    domains = np.linalg.pinv(np.diag(in_domain) - shares.T @ within, rcond=1e-9) @ (weights.T @ rows - shares.T @ means)
    domains -= in_domain @ domains / in_domain.sum()
    return means - within @ domains, domains


def _sums(rows: Rows, classes: Numbers) -> Rows:
    """Return the sum of each class's rows (C×p).

    Its matrix is sparse: a full one takes time and memory for each class.
    """
    from scipy.sparse import csr_array  # slow to import

    number = len(classes)
    of_class = csr_array((np.ones(number), classes, np.arange(number + 1)), (number, int(classes.max()) + 1))
    return of_class.T @ rows


def by_turns(rows: Rows, classes: Numbers, k: int, seed: int) -> Numbers:
    """Return the domain of each row. Of several beginnings, that with the smallest sum of squares counts."""
    best, least = np.zeros(len(rows), np.int64), np.inf
    centred = rows - effects(rows, classes, np.ones((len(rows), 1)))[0][classes]
    for start in range(STARTS):
        domains = kmeans(centred, k, [seed, start])
        for _ in range(TURNS):
            a, b = effects(rows, classes, np.eye(k)[domains])
            distances = squared_distances(rows - a[classes], b)
            before, domains = domains, distances.argmin(axis=1)
            if np.array_equal(before, domains):
                break
        if (left := distances.min(axis=1).sum()) < least:
            best, least = domains, left
    return best


def _with_lone_classes(rows: Rows, classes: Numbers, domains: Numbers, k: int) -> Numbers:
    """Return the domains (n).

    A class that lies in a single domain goes where its effect is most like those of other classes.

    Least squares cannot tell the effect of such a class from that of its domain, so it would stay where it began.
    """
    weights = np.eye(k)[domains]
    counts = _sums(weights, classes)
    lone = counts.max(axis=1) == counts.sum(axis=1)
    if lone.all():
        return domains
    of_class, of_domain = effects(rows, classes, weights)
    usual, placed = of_class[~lone].mean(axis=0), domains.copy()
    for label in np.flatnonzero(lone):
        members = classes == label
        placed[members] = squared_distances(rows[members].mean(axis=0, keepdims=True) - usual, of_domain).argmin()
    return placed


def _expectation_maximisation(rows: Rows, classes: Numbers, weights: Rows) -> Rows:
    """EM from the ``weights``, with noise of one covariance in all domains."""
    for _ in range(TURNS):
        a, b = effects(rows, classes, weights)
        rest = rows - a[classes]
        covariance = (rest.T @ rest - b.T @ (weights.T @ rest)) / len(rows)
        covariance = (1 - SHRINKAGE) * (covariance + covariance.T) / 2
        covariance += np.eye(len(covariance)) * max(np.trace(covariance) * SHRINKAGE / len(covariance), 1e-12)
        solved = np.linalg.solve(covariance, b.T)
        logs = rest @ solved - (b.T * solved).sum(axis=0) / 2 + np.log(np.maximum(weights.sum(axis=0), 1e-12))
        logs -= logs.max(axis=1, keepdims=True)
        logs -= np.log(np.exp(logs).sum(axis=1, keepdims=True))
        before, weights = weights, np.exp(logs)
        if np.abs(weights - before).max() < 1e-3:
            break
    return logs


def kmeans(rows: Rows, k: int, seed: list[int], starts: int = 1) -> Numbers:
    """Return the cluster of each row, by k-means."""
    from sklearn.cluster import KMeans  # a second to import
    from sklearn.exceptions import ConvergenceWarning

    state = int(np.random.SeedSequence(seed).generate_state(1)[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of equal rows, which make fewer clusters
        return KMeans(k, n_init=starts, random_state=state).fit_predict(rows).astype(np.int64)


def squared_distances(rows: Rows, centres: Rows) -> Rows:
    """Return the squared distance of each row from each centre (n×k)."""
    return (rows**2).sum(axis=1, keepdims=True) - 2 * rows @ centres.T + (centres**2).sum(axis=1)
