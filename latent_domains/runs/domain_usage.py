"""How a branch used its latent domains: their shares, and how well they match true source domains and classes."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from latent_domains.experiment.methods import Method
from latent_domains.runs.record import DomainUsage


def domain_usage(
    probabilities: Mapping[str, NDArray[np.floating]],
    labels: Mapping[str, NDArray[np.int64]] | None = None,
    *,
    held_out: bool = False,
) -> DomainUsage:
    """Summarise a branch's probabilities (n_s×k for each true source s with n_s images).

    ``labels`` are the images' classes (n_s). ``held_out`` says that no image is a training image.
    """
    from sklearn.metrics import normalized_mutual_info_score as nmi  # a second to import

    assigned = [p.argmax(axis=1) for p in probabilities.values()]
    k = next(iter(probabilities.values())).shape[1]
    counts = np.array([np.bincount(a, minlength=k) for a in assigned])
    total, found = int(counts.sum()), np.concatenate(assigned)
    true = np.repeat(np.arange(len(assigned)), counts.sum(axis=1))
    classes = None if labels is None else np.concatenate([labels[source] for source in probabilities])
    return DomainUsage(
        sources=list(probabilities),
        images=total,
        held_out=held_out,
        counts=counts.tolist(),
        mean_probability=[p.mean(axis=0, dtype=np.float64).round(6).tolist() for p in probabilities.values()],
        share=(counts.sum(axis=0) / total).tolist(),
        purity=float(counts.max(axis=0).sum() / total),
        nmi=float(nmi(true, found)),
        nmi_classes=None if classes is None else float(nmi(classes, found)),
    )


def what_was_told(method: Method, usage: DomainUsage) -> str:
    """Say how many of these images had a label that the branch learnt from; empty if none had, or for one source.

    It is the share of all source images. Of those that are counted it may be a little more or less.
    """
    if usage.held_out or not usage.has_true_domains or not method.knows_some:
        return ""
    if method.domains:
        return "in training the domains of a file were known"
    labels = "cluster of style" if method.reads_style else "domain"
    return f"in training the branch was told the {labels} of about {100 * method.told_share:g} % of these images"
