"""Linear classifiers of standardised features: logistic regression, and what makes one of soft labels."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.special import softmax

from latent_domains.baselines.checks import Floats, Integers
from latent_domains.baselines.classifiers import untrained

EPS = 1e-5
"""Added to variances, as by the mDA layer."""

LEAST = 0.01
"""Soft labels below this probability are left out."""

ABSENT = -1e3
"""The score of a class without training samples."""


def standardised(X: Floats) -> Floats:
    """Return features (n×d) less their mean, divided by their deviation."""
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
        """Fit a multinomial logistic regression on standardised features (n×d) and their labels (n)."""
        length = np.sqrt(Z.shape[1])  # rows of a mean squared length of 1, for which C is meant
        fitted = untrained("logistic").fit(Z / length, labels, sample_weight)
        found, bias = fitted.coef_ / length, fitted.intercept_
        if len(fitted.classes_) == 2:  # one row of weights, for the second class
            found, bias = np.concatenate([-found, found]) / 2, np.concatenate([-bias, bias]) / 2
        head = cls(np.zeros((classes, Z.shape[1])), np.full(classes, ABSENT))
        head.weights[fitted.classes_], head.bias[fitted.classes_] = found, bias
        return head

    @classmethod
    def distil(cls, Z: Floats, probabilities: Floats) -> Self:
        """Fit the same on soft labels (n×classes): each sample counts for each class as far as it is probable."""
        rows, labels = np.nonzero(probabilities >= LEAST)
        return cls.fit(Z[rows], labels, probabilities.shape[1], probabilities[rows, labels])

    def probabilities(self, Z: Floats) -> Floats:
        """Return p(c|z) of standardised features (n×d), n×classes."""
        return softmax(Z @ self.weights.T + self.bias, axis=1)

    def of_standardised(self, X: Floats) -> Self:
        """Return the same classifier of features (n×d), for what :func:`standardised` makes of them."""
        mean, deviation = X.mean(axis=0), np.sqrt(X.var(axis=0) + EPS)
        return type(self)(self.weights * deviation, self.bias + self.weights @ mean)

    def of_raw(self, X: Floats) -> Self:
        """Return the same classifier of standardised features, for the features (n×d) themselves."""
        weights = self.weights / np.sqrt(X.var(axis=0) + EPS)
        return type(self)(weights, self.bias - weights @ X.mean(axis=0))
