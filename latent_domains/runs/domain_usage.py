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
    nmi_classes = None
    if labels is not None:
        classes = np.concatenate([labels[source] for source in probabilities])
        by_class = np.zeros((int(classes.max()) + 1, k), np.int64)
        np.add.at(by_class, (classes, np.concatenate(assigned)), 1)
        nmi_classes = nmi(by_class)
    return DomainUsage(
        sources=list(probabilities),
        images=total,
        held_out=held_out,
        counts=counts.tolist(),
        mean_probability=[p.mean(axis=0, dtype=np.float64).round(6).tolist() for p in probabilities.values()],
        share=(counts.sum(axis=0) / total).tolist(),
        purity=float(counts.max(axis=0).sum() / total),
        nmi=nmi(counts),
        nmi_classes=nmi_classes,
    )


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
