"""The shallow baselines (:mod:`latent_domains.baselines`) by the names that tables, records and command lines have."""

from dataclasses import dataclass
from typing import Literal

from latent_domains.common.validation import Positive

DISCOVERY = ("gong2013", "hoffman2012")
"""Those that discover domains."""

KERNEL = (*DISCOVERY, "gfk")
"""Those with a geodesic flow kernel, and a choice of CLASSIFIERS in it."""

UNADAPTED = ("1nn", "svm", "logistic")
"""Those that learn from the sources alone."""

SEEDLESS = ("gfk", "1nn", "1nn_own_z", "svm", "logistic", "logistic_own_z")
"""Those without random numbers: one run counts for all seeds of a table, unless each seed has data of its own."""

BASELINES = {
    "gong2013": "Gong et al.",
    "hoffman2012": "Hoffman et al.",
    "gfk": "geodesic flow kernel",
    "1nn": "nearest neighbour",
    "1nn_own_z": "nearest neighbour, each side standardised by itself",
    "svm": "linear SVM",
    "logistic": "logistic regression",
    "logistic_own_z": "logistic regression, each side standardised by itself",
}
"""All by their names, and how a report calls them."""

ON_A_RUN = {
    "spread": "the trained head, its predictions spread over neighbours",
    "spread_net": "the fine-tuned net, its predictions spread over neighbours",
}
"""What is made of a run, on features or of a whole net, by its name in a record, and how a report calls it."""

VARIANTS = ("ensemble", "matching")
"""How the discovered domains are used: all, weighted for each sample, or the one nearest to the target alone."""

CLASSIFIERS = ("1nn", "svm")
"""In the kernel: the nearest neighbour, as its authors have it, or a linear SVM."""

NORMALISATIONS = ("z", "none")
"""Of the features before they are classified: each feature of mean 0 and variance 1, or as stored."""


@dataclass(frozen=True)
class Baseline:
    """A baseline and its options; None stands for the method's own.

    ``k`` is the number of latent domains (None: by cross-validation), ``classifier`` that in the kernel, ``dimension``
    that of the kernel's subspaces (None: by the subspace disagreement measure), ``limit`` the records of each source
    and target to learn from (None: all).
    """

    method: Literal[*BASELINES]
    classifier: Literal[*CLASSIFIERS] | None = None
    dimension: Positive | None = None
    normalise: Literal[*NORMALISATIONS] = NORMALISATIONS[0]
    k: Positive | None = None
    limit: Positive | None = None

    def __post_init__(self) -> None:
        for option, methods, lack in (
            ("k", DISCOVERY, "discovers no domains"),
            ("classifier", KERNEL, "has no kernel"),
            ("dimension", KERNEL, "has no kernel"),
        ):
            if getattr(self, option) is not None and self.method not in methods:
                raise ValueError(f"{option}: {self.method} {lack}")
