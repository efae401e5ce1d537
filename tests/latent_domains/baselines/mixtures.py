"""Mixtures whose true domains are known: samples of classes and domains, each with an offset of its own."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Mixture:
    """Features (n×d), class labels (n) and true domains (n), in random order."""

    X: NDArray[np.float64]
    y: NDArray[np.int64]
    domains: NDArray[np.int64]

    def take(self, rows: NDArray[np.int64]) -> "Mixture":
        return Mixture(self.X[rows], self.y[rows], self.domains[rows])


def mixture(
    counts: list[list[int]],
    *,
    features: int = 20,
    classes_apart: float = 4.0,
    domains_apart: float = 1.0,
    seed: int = 0,
) -> Mixture:
    """``counts[domain][class]`` samples around the sum of a class's and a domain's offset, noise of deviation 1."""
    rng = np.random.default_rng(seed)
    of_class = classes_apart * rng.normal(size=(len(counts[0]), features))
    of_domain = domains_apart * rng.normal(size=(len(counts), features))
    domains = np.repeat(np.arange(len(counts)), [sum(row) for row in counts])
    y = np.concatenate([np.repeat(np.arange(len(row)), row) for row in counts])
    X = of_class[y] + of_domain[domains] + rng.normal(size=(len(y), features))
    return Mixture(X, y, domains).take(rng.permutation(len(y)))
