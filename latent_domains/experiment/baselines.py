"""The shallow baselines (:mod:`latent_domains.baselines`), by their names in tables, records and command lines."""

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
"""Those without random numbers: one run counts for all seeds of a table, unless each seed has its own data."""

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
"""All by their names, with the names that reports use."""

ON_A_RUN = {
    "spread": "the trained head, its predictions spread over neighbours",
    "spread_net": "the fine-tuned net, its predictions spread over neighbours",
}
"""What is computed from a run, on features or of a whole net: its name in a record, and the name that reports use."""

VARIANTS = ("ensemble", "matching")
"""How the discovered domains are used: all, weighted for each sample, or only the one nearest to the target."""

CLASSIFIERS = ("1nn", "svm")
"""The classifier in the kernel: the nearest neighbour, as in the paper of the kernel, or a linear SVM."""

NORMALISATIONS = ("z", "none")
"""Normalisation of the features before they are classified: each to mean 0 and variance 1, or as stored."""


@dataclass(frozen=True)
class Baseline:
    """A baseline and its options; None means the method's default.

    ``k`` is the number of latent domains (None: by cross-validation), ``classifier`` the classifier in the kernel,
    ``dimension`` that of the kernel's subspaces (None: by the subspace disagreement measure), ``limit`` the records of
    each source and target to learn from (None: all).
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
