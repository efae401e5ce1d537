"""Linear classifiers of standardised features: logistic regression, also on soft labels.

Label spreading uses a target's own structure: it spreads predictions over a graph of neighbours (Zhou, Bousquet, Lal,
Weston and Schölkopf, NIPS 2003). From soft predictions P of all samples: F ← α S F + (1 - α) P, where S = D^-½ A D^-½
and A links each sample with its nearest ones by cosine.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.sparse import csr_matrix, diags
from scipy.special import softmax
from sklearn.neighbors import NearestNeighbors

from latent_domains.baselines.classifiers import untrained
from latent_domains.baselines.features import Floats, Integers

EPS = 1e-5
"""Added to variances, as by the mDA layer."""

LEAST = 0.01
"""Soft labels below this probability are ignored."""

ABSENT = -1e3
"""The score of a class without training samples."""


def standardised(X: Floats) -> Floats:
    """Return features (n×d) minus their mean, divided by their deviation."""
    return (X - X.mean(axis=0)) / np.sqrt(X.var(axis=0) + EPS)


@dataclass(frozen=True, eq=False)
class LinearHead:
    """Class scores W z + b of standardised features z."""

    weights: Floats
    """W, classes×d."""
    bias: Floats
    """b, classes."""

    @classmethod
    def fit(cls, Z: Floats, labels: Integers, classes: int, sample_weight: Floats | None = None) -> Self:
        """Fit a multinomial logistic regression on standardised features (n×d) and their labels (n).

        If all labels are one class, this class has probability 1 everywhere.
        """
        head = cls(np.zeros((classes, Z.shape[1])), np.full(classes, ABSENT))
        if (labels == labels[0]).all():  # scikit-learn refuses one class
            head.bias[labels[0]] = 0
            return head
        length = np.sqrt(Z.shape[1])  # rows of a mean squared length of 1, for which C is meant
        fitted = untrained("logistic").fit(Z / length, labels, sample_weight)
        found, bias = fitted.coef_ / length, fitted.intercept_
        if len(fitted.classes_) == 2:  # one row of weights, for the second class
            found, bias = np.concatenate([-found, found]) / 2, np.concatenate([-bias, bias]) / 2
        head.weights[fitted.classes_], head.bias[fitted.classes_] = found, bias
        return head

    @classmethod
    def distil(cls, Z: Floats, probabilities: Floats) -> Self:
        """Fit the same on soft labels (n×classes): each sample counts for each class with its probability."""
        rows, labels = np.nonzero(probabilities >= LEAST)
        return cls.fit(Z[rows], labels, probabilities.shape[1], probabilities[rows, labels])

    def probabilities(self, Z: Floats) -> Floats:
        """Return p(c|z) of standardised features (n×d), n×classes."""
        return softmax(Z @ self.weights.T + self.bias, axis=1)

    def of_standardised(self, X: Floats) -> Self:
        """Return the same classifier of features (n×d), for the output of :func:`standardised` on them."""
        mean, deviation = X.mean(axis=0), np.sqrt(X.var(axis=0) + EPS)
        return type(self)(self.weights * deviation, self.bias + self.weights @ mean)

    def of_raw(self, X: Floats) -> Self:
        """Return the same classifier of standardised features, for the features (n×d) themselves."""
        weights = self.weights / np.sqrt(X.var(axis=0) + EPS)
        return type(self)(weights, self.bias - weights @ X.mean(axis=0))


NEIGHBOURS, ALPHA = 5, 0.8
"""Of 3 to 20 and 0.5 to 0.9 these improved most on held-out sources (results/head)."""

STEPS = 50
"""ALPHA to this power is below 1e-4."""


def neighbours(Z: Floats) -> csr_matrix:
    """Return the graph (n×n, 0 or 1) that links each sample with its NEIGHBOURS nearest others, by cosine."""
    number = min(NEIGHBOURS, len(Z) - 1)
    return NearestNeighbors(n_neighbors=number, metric="cosine", algorithm="brute").fit(Z).kneighbors_graph()


def spread(probabilities: Floats, graph: csr_matrix) -> Floats:
    """Return predictions (n×classes) that agree more with those of their neighbours."""
    links = graph.maximum(graph.T)
    scale = diags(1 / np.sqrt(np.maximum(links.sum(axis=1).A1, 1)))
    step, found = scale @ links @ scale, probabilities
    for _ in range(STEPS):
        found = ALPHA * (step @ found) + (1 - ALPHA) * probabilities
    return found / found.sum(axis=1, keepdims=True)


def smoothness(probabilities: Floats, graph: csr_matrix) -> float:
    """Return how far predictions agree with the mean p̄ of their neighbours': Σ p·p̄ / Σ p·p, 1 if completely."""
    mean = graph @ probabilities / np.maximum(graph.sum(axis=1).A1, 1)[:, None]
    return float((probabilities * mean).sum() / np.square(probabilities).sum())
