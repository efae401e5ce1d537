"""The Gaussian kernel on features, and a distance of two sets of samples: the maximum mean discrepancy."""

import numpy as np
from sklearn.metrics.pairwise import euclidean_distances, rbf_kernel

from latent_domains.baselines.checks import Floats
from latent_domains.common.program import ProgramError

MEDIAN_OF = 2000
"""The median distance is taken of at most so many samples; it hardly changes with more."""


def median_gamma(X: Floats, rng: np.random.Generator) -> float:
    """γ of exp(-γ ‖x - x'‖²) for a bandwidth σ² = the median squared distance: 1 / 2σ².

    Raises ProgramError if the features (n×d) are the same for most samples.
    """
    some = X if len(X) <= MEDIAN_OF else X[np.sort(rng.choice(len(X), MEDIAN_OF, replace=False))]
    squared = euclidean_distances(some, squared=True)[np.triu_indices(len(some), 1)]
    median = float(np.median(squared)) if len(squared) else 0.0
    # A smaller distance comes from the rounding of equal samples.
    if median <= 1e-12 * float(np.square(some).sum(axis=1).max()):
        raise ProgramError("source: most samples have the same features, expected features that differ")
    return 1 / (2 * median)


def mmd(X: Floats, other: Floats, gamma: float) -> float:
    """Squared maximum mean discrepancy of two samples (n×d, m×d), ‖mean φ(x) - mean φ(x')‖²."""
    inside = rbf_kernel(X, gamma=gamma).mean() + rbf_kernel(other, gamma=gamma).mean()
    return float(inside - 2 * rbf_kernel(X, other, gamma=gamma).mean())
