"""How a branch used its latent domains: their shares, and how well they match the true source domains."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class DomainUsage:
    """Latent domains against true source domains.

    ``counts[s][d]``: images of true source s whose most probable latent domain is d. ``mean_probability[s][d]``: mean
    w of those images. ``share[d]``: share of all images in latent domain d. ``purity``: share of images whose true
    source is the commonest one of their latent domain (1/sources if all fall into one domain and the sources are of
    equal size). ``nmi``: normalised mutual information (arithmetic mean), 0 to 1.
    """

    sources: tuple[str, ...]
    images: int
    counts: list[list[int]]
    mean_probability: list[list[float]]
    share: list[float]
    purity: float
    nmi: float

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def domain_usage(probabilities: dict[str, NDArray[np.float32]]) -> DomainUsage:
    """Summarise the branch's probabilities (n_s×k) for the images of each true source s."""
    from sklearn.metrics import normalized_mutual_info_score  # a second to import: for those that evaluate alone

    assigned = [p.argmax(axis=1) for p in probabilities.values()]
    k = next(iter(probabilities.values())).shape[1]
    counts = np.array([np.bincount(a, minlength=k) for a in assigned])
    true = np.repeat(np.arange(len(assigned)), [len(a) for a in assigned])
    total = int(counts.sum())
    return DomainUsage(
        sources=tuple(probabilities),
        images=total,
        counts=counts.tolist(),
        mean_probability=[p.mean(axis=0, dtype=np.float64).round(6).tolist() for p in probabilities.values()],
        share=(counts.sum(axis=0) / total).tolist(),
        purity=float(counts.max(axis=0).sum() / total),
        nmi=float(normalized_mutual_info_score(true, np.concatenate(assigned))),
    )
