"""One shallow baseline on stored features, from LMDBs to its record."""

import resource
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latent_domains.baselines import (
    ConstrainedDomains,
    DistinctiveDomains,
    GFKClassifier,
    LatentDomainClassifier,
    SourceClassifier,
    choose_domains,
)
from latent_domains.baselines.checks import check_training
from latent_domains.baselines.features import read_features
from latent_domains.common.program import ProgramError
from latent_domains.common.versions import commit, hardware, versions
from latent_domains.experiment.baselines import DISCOVERY, VARIANTS
from latent_domains.experiment.experiment import Experiment
from latent_domains.runs.domain_usage import domain_usage
from latent_domains.runs.preflight import check_meaning
from latent_domains.runs.record import OnTarget, Record

_ESTIMATORS = {"gong2013": DistinctiveDomains, "hoffman2012": ConstrainedDomains}
"""Of DISCOVERY."""

Labelled = tuple[NDArray[np.float64], NDArray[np.int64]]
"""Features (n×d) and labels (n)."""


@dataclass(frozen=True)
class BaselineOptions:
    """A method and its options; None stands for the method's own."""

    method: str
    """One of BASELINES."""
    k: int | None
    """Latent domains; None: 2 to ``max_k``, by cross-validation."""
    max_k: int
    variant: str | None
    min_domain: int | None
    seed: int
    limit: int | None
    """Records of each source and target to learn from; None: all."""
    data: Path
    """The folder of the LMDBs."""
    quiet: bool


def make_record(baseline: BaselineOptions, experiment: Experiment) -> Record:
    """Run a baseline and return its record."""
    sources, targets, tests = _read(baseline, experiment)
    X, y = (np.concatenate(part) for part in zip(*sources.values(), strict=True))
    X_target = np.concatenate([features for features, _ in targets.values()])
    check_training(X, y)
    begin = time.monotonic()
    discovered = _discover(baseline, X, y) if baseline.method in DISCOVERY else None
    discovery = time.monotonic() - begin
    classifier = _adapt(baseline, X, y, X_target, discovered)
    correct = {
        target: int((classifier.predict(features) == labels).sum()) for target, (features, labels) in tests.items()
    }
    images = {target: len(labels) for target, (_, labels) in tests.items()}
    seconds = time.monotonic() - begin
    usage = None
    if discovered:
        ends = np.cumsum([len(labels) for _, labels in sources.values()])[:-1]
        assignments = dict(zip(sources, np.split(discovered["assignments"], ends), strict=True))
        usage = domain_usage(assignments, {source: labels for source, (_, labels) in sources.items()})
    return Record(
        baseline={
            "method": baseline.method,
            "variant": (baseline.variant or VARIANTS[0]) if discovered else None,
            "k": discovered["k"] if discovered else None,
            "learnability": discovered["learnability"] if discovered else None,
            "dataset": experiment.dataset,
            "sources": list(experiment.sources),
            "targets": list(experiment.targets),
            "min_domain": baseline.min_domain,
            "undivided": experiment.undivided,
            "seed": baseline.seed,
            "limit": baseline.limit,
            "source_images": len(X),
            "target_images": len(X_target),
            "features": X.shape[1],
        },
        accuracy=sum(correct.values()) / sum(images.values()),
        test_images=sum(images.values()),
        targets={
            target: OnTarget(accuracy=correct[target] / images[target], test_images=images[target]) for target in tests
        },
        domain_usage=usage,
        seconds=round(seconds, 3),
        discovery_seconds=round(discovery, 3) if discovered else None,
        memory_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        commit=commit(),
        versions={**versions(), "scipy": version("scipy")},
        hardware=hardware("CPU"),
    )


def _read(
    baseline: BaselineOptions, experiment: Experiment
) -> tuple[dict[str, Labelled], dict[str, Labelled], dict[str, Labelled]]:
    """Features and labels of the sources, of the targets to adapt to and of those to test on, by domain.

    Raises ProgramError if one of the LMDBs cannot be read, or if they do not mean the same by a label or a feature.
    """
    data = experiment.data
    train = {part: baseline.data / data.train_lmdb(part) for part in (*experiment.source_parts, *experiment.targets)}
    test = {target: baseline.data / data.test_lmdb(target) for target in experiment.targets}
    labelled = [*(train[part] for part in experiment.source_parts), *test.values()]
    check_meaning([*train.values(), *test.values()], labelled, data)

    def read(lmdb: Path, limit: int | None) -> Labelled:
        return read_features(lmdb, data, limit=limit, quiet=baseline.quiet)

    sources = {part: read(train[part], baseline.limit) for part in experiment.source_parts}
    tests = {target: read(lmdb, None) for target, lmdb in test.items()}
    targets = {}
    for target, lmdb in test.items():
        same = lmdb == train[target] and baseline.limit is None
        targets[target] = tests[target] if same else read(train[target], baseline.limit)
    return sources, targets, tests


def _discover(baseline: BaselineOptions, X: NDArray[np.float64], y: NDArray[np.int64]) -> dict[str, Any]:
    """Discover domains of the source: their number, A by number if that was chosen, and assignments (n×k)."""
    estimator = _ESTIMATORS[baseline.method]
    options = {"random_state": baseline.seed, "verbose": not baseline.quiet}
    if baseline.min_domain is not None:
        options["min_samples"] = baseline.min_domain
    if baseline.k is not None:
        found, learnability = estimator(baseline.k, **options).fit(X, y), None
    else:
        largest = min(baseline.max_k, int(np.unique(y, return_counts=True)[1].min()))
        if largest < 2:
            raise ProgramError("k: a class has a single sample, so that auto can try no number of domains: pass --k 1")
        estimators = [estimator(k, **options) for k in range(2, largest + 1)]
        found, learnability = choose_domains(estimators, X, y, seed=baseline.seed, verbose=not baseline.quiet)
    return {
        "k": found.n_domains,
        "learnability": learnability,
        "assignments": found.assignments_,
        "domains": found.labels_,
    }


def _adapt(
    baseline: BaselineOptions,
    X: NDArray[np.float64],
    y: NDArray[np.int64],
    X_target: NDArray[np.float64],
    discovered: dict[str, Any] | None,
) -> SourceClassifier | GFKClassifier | LatentDomainClassifier:
    """The trained classifier of the target."""
    if discovered is None:
        references = {
            "gfk": GFKClassifier(random_state=baseline.seed),
            "svm": SourceClassifier(),
            "logistic": SourceClassifier(logistic=True),
            "logistic_own_z": SourceClassifier(logistic=True, own_z=True),
        }
        return references[baseline.method].fit(X, y, X_target)
    latent = LatentDomainClassifier(
        variant=baseline.variant or VARIANTS[0], random_state=baseline.seed, verbose=not baseline.quiet
    )
    return latent.fit(X, y, X_target, discovered["domains"])
