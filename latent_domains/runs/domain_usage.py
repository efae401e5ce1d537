"""How a branch used its latent domains: their shares, and how well they match the true source domains."""

import numpy as np
from numpy.typing import NDArray

from latent_domains.runs.record import DomainUsage


def domain_usage(probabilities: dict[str, NDArray[np.float32]]) -> DomainUsage:
    """Summarise the branch's probabilities (n_s×k) for the images of each true source s."""
    from sklearn.metrics import normalized_mutual_info_score  # a second to import: for those that evaluate alone

    assigned = [p.argmax(axis=1) for p in probabilities.values()]
    k = next(iter(probabilities.values())).shape[1]
    counts = np.array([np.bincount(a, minlength=k) for a in assigned])
    true = np.repeat(np.arange(len(assigned)), [len(a) for a in assigned])
    total = int(counts.sum())
    return DomainUsage(
        sources=list(probabilities),
        images=total,
        counts=counts.tolist(),
        mean_probability=[p.mean(axis=0, dtype=np.float64).round(6).tolist() for p in probabilities.values()],
        share=(counts.sum(axis=0) / total).tolist(),
        purity=float(counts.max(axis=0).sum() / total),
        nmi=float(normalized_mutual_info_score(true, np.concatenate(assigned))),
    )
