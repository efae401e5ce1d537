"""How a branch used its latent domains: their shares, and how well they match true source domains and classes."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from latent_domains.runs.record import DomainUsage


def domain_usage(
    probabilities: Mapping[str, NDArray[np.floating]],
    labels: Mapping[str, NDArray[np.int64]] | None = None,
    *,
    held_out: bool = False,
) -> DomainUsage:
    """Summarise the branch's probabilities (n_s×k) for the images of each true source s.

    ``labels`` are the images' classes (n_s). ``held_out`` says that the images are none of the training images.
    """
    assigned = [p.argmax(axis=1) for p in probabilities.values()]
    k = next(iter(probabilities.values())).shape[1]
    counts = np.array([np.bincount(a, minlength=k) for a in assigned])
    total = int(counts.sum())
    by_class = None
    if labels is not None:
        classes, latent = np.concatenate([labels[source] for source in probabilities]), np.concatenate(assigned)
        by_class = joint_counts(classes, latent)
    return DomainUsage(
        sources=list(probabilities),
        images=total,
        held_out=held_out,
        counts=counts.tolist(),
        mean_probability=[p.mean(axis=0, dtype=np.float64).round(6).tolist() for p in probabilities.values()],
        share=(counts.sum(axis=0) / total).tolist(),
        purity=float(counts.max(axis=0).sum() / total),
        nmi=nmi(counts),
        nmi_classes=None if by_class is None else nmi(by_class),
    )


def joint_counts(first: NDArray[np.integer], second: NDArray[np.integer]) -> NDArray[np.int64]:
    """How many of the same images (n) are in each group of the first grouping and each of the second."""
    counts = np.zeros((int(first.max()) + 1, int(second.max()) + 1), np.int64)
    np.add.at(counts, (first, second), 1)
    return counts


def nmi(counts: NDArray[np.int64]) -> float:
    """Normalised mutual information of two groupings of the same images, by how many are in each pair of groups.

    It is divided by the mean of their entropies. Two groupings that do not divide agree: 1. (It is scikit-learn's,
    which takes longer to import than a short run to evaluate.)
    """
    rows, columns, both = (_entropy(sums) for sums in (counts.sum(axis=1), counts.sum(axis=0), counts))
    mean = (rows + columns) / 2
    return max(0.0, rows + columns - both) / mean if mean > 0 else 1.0


def _entropy(counts: NDArray[np.int64]) -> float:
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log(shares)).sum())
