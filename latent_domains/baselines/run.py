"""One shallow baseline on stored features, from LMDBs to its record."""

import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path

import numpy as np

from latent_domains.baselines import (
    ConstrainedDomains,
    DistinctiveDomains,
    GFKClassifier,
    LatentDomainClassifier,
    SourceClassifier,
    choose_domains,
)
from latent_domains.baselines.features import Floats, Integers, by_content, check_training, read_features
from latent_domains.baselines.gong2013 import Choice
from latent_domains.common.program import ProgramError
from latent_domains.common.versions import commit, hardware, versions
from latent_domains.data.lmdb_folder import check_up_to_date
from latent_domains.data.lmdb_io import contents
from latent_domains.experiment.baselines import CLASSIFIERS, DISCOVERY, KERNEL, Baseline
from latent_domains.experiment.experiment import Experiment
from latent_domains.runs.preflight import check_meaning
from latent_domains.runs.record import Matching, OnTarget, Record, domain_usage

_ESTIMATORS = {"gong2013": DistinctiveDomains, "hoffman2012": ConstrainedDomains}
"""The estimators of the methods in DISCOVERY."""

Labelled = tuple[Floats, Integers]
"""Features (n×d) and labels (n)."""


@dataclass(frozen=True, kw_only=True)
class BaselineOptions(Baseline):
    """A baseline on the LMDBs in the folder ``data``; ``max_k`` is the largest k that is tried."""

    data: Path
    max_k: int = 5
    min_domain: int | None = None
    seed: int = 0


def make_record(baseline: BaselineOptions, experiment: Experiment) -> Record:
    """Run a baseline and return its record. The LMDBs' order matters only with a limit."""
    sources, X_target, tests = _read(baseline, experiment)
    X, y = (np.concatenate(part) for part in zip(*sources.values(), strict=True))
    source_of = np.repeat(list(sources), [len(labels) for _, labels in sources.values()])
    order = by_content(X, y)
    X, y, source_of = X[order], y[order], source_of[order]
    X_target = X_target[by_content(X_target)]
    check_training(X, y)
    begin = time.monotonic()
    discovered = _discover(baseline, X, y) if baseline.method in DISCOVERY else None
    discovery = time.monotonic() - begin
    in_kernel = baseline.classifier or CLASSIFIERS[0]
    classifier = _adapt(baseline, in_kernel, X, y, X_target, discovered)
    found = test_on(classifier.predict, tests, experiment.data.classes)
    seconds = time.monotonic() - begin
    usage = matching = None
    if discovered:
        of = {source: source_of == source for source in sources}
        usage = domain_usage(
            {source: discovered.best.assignments_[rows] for source, rows in of.items()},
            {source: y[rows] for source, rows in of.items()},
        )
        by_matching = test_on(partial(classifier.predict, variant="matching"), tests, experiment.data.classes)
        matching = Matching(accuracy=overall_accuracy(by_matching), targets=by_matching, domain=classifier.nearest_)
    return Record(
        baseline={
            "method": baseline.method,
            "classifier": in_kernel if baseline.method in KERNEL else None,
            "dimension": baseline.dimension,
            "dimensions": classifier.dimensions_,
            "normalise": baseline.normalise,
            "k": discovered.best.n_domains if discovered else None,
            "learnability": discovered.learnability if discovered else None,
            "k_equals": discovered.equals if discovered else None,
            "dataset": experiment.dataset,
            "sources": list(experiment.sources),
            "targets": list(experiment.targets),
            "min_domain": baseline.min_domain,
            "undivided": experiment.task.undivided,
            "seed": baseline.seed,
            "limit": baseline.limit,
            "source_images": len(X),
            "target_images": len(X_target),
            "features": X.shape[1],
        },
        accuracy=overall_accuracy(found),
        test_images=sum(one.test_images for one in found.values()),
        targets=found,
        lmdbs={name: contents(baseline.data / name) for name in _lmdbs(experiment)},
        matching=matching,
        domain_usage=usage,
        seconds=round(seconds, 3),
        discovery_seconds=round(discovery, 3) if discovered else None,
        memory_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        commit=commit(),
        versions={**versions(), "scipy": version("scipy")},
        hardware=hardware("CPU"),
    )


def test_on(predict: Callable[[Floats], Integers], tests: dict[str, Labelled], classes: int) -> dict[str, OnTarget]:
    """Return the accuracy of ``predict`` on each target's features (n×d) and labels (n)."""
    from sklearn.metrics import confusion_matrix  # a second to import

    return {
        target: OnTarget.of(confusion_matrix(labels, predict(features), labels=range(classes)))
        for target, (features, labels) in tests.items()
    }


def overall_accuracy(found: dict[str, OnTarget]) -> float:
    """Return the accuracy on all targets' images."""
    correct = sum(round(one.accuracy * one.test_images) for one in found.values())
    return correct / sum(one.test_images for one in found.values())


def _lmdbs(experiment: Experiment) -> list[str]:
    """Return the LMDBs of the sources and of all targets, for training and for tests, relative to the data folder."""
    data, targets = experiment.data, experiment.targets
    names = [*map(data.train_lmdb, (*experiment.task.source_inputs, *targets)), *map(data.test_lmdb, targets)]
    return list(dict.fromkeys(names))


def _read(baseline: BaselineOptions, experiment: Experiment) -> tuple[dict[str, Labelled], Floats, dict[str, Labelled]]:
    """Return the sources by domain, the features of all targets (n×d) to adapt to, and the tested targets by domain.

    Refuses LMDBs whose classes or features differ in meaning.
    """
    data = experiment.data
    train = {
        part: baseline.data / data.train_lmdb(part) for part in (*experiment.task.source_inputs, *experiment.targets)
    }
    test = {target: baseline.data / data.test_lmdb(target) for target in experiment.targets}
    for name in _lmdbs(experiment):
        check_up_to_date(baseline.data / name, f"make it again: {data.made_by} --force")
    labelled = [*(train[part] for part in experiment.task.source_inputs), *test.values()]
    check_meaning([*train.values(), *test.values()], labelled, data)
    read = cache(partial(read_features, data=data))
    sources = {part: read(train[part], limit=baseline.limit) for part in experiment.task.source_inputs}
    targets = [read(train[target], limit=baseline.limit)[0] for target in experiment.targets]
    return sources, np.concatenate(targets), {target: read(lmdb, limit=None) for target, lmdb in test.items()}


def _discover(baseline: BaselineOptions, X: Floats, y: Integers) -> Choice:
    """Discover domains of the source: the requested number, or the most learnable number."""
    estimator = _ESTIMATORS[baseline.method]
    options = {"random_state": baseline.seed}
    if baseline.min_domain is not None:
        options["min_samples"] = baseline.min_domain
    if baseline.k is not None:
        return Choice(estimator(baseline.k, **options).fit(X, y))
    largest = min(baseline.max_k, int(np.unique(y, return_counts=True)[1].min()))
    if largest < 2:
        raise ProgramError("k: a class has a single sample, so auto has no choice of k: pass --k 1")
    estimators = [estimator(k, **options) for k in range(2, largest + 1)]
    return choose_domains(estimators, X, y, seed=baseline.seed)


def _adapt(
    baseline: BaselineOptions,
    in_kernel: str,
    X: Floats,
    y: Integers,
    X_target: Floats,
    discovered: Choice | None,
) -> SourceClassifier | GFKClassifier | LatentDomainClassifier:
    """Return the trained classifier of the target. Methods with a kernel use the classifier ``in_kernel``."""
    if baseline.method not in KERNEL:
        name = baseline.method.removesuffix("_own_z")
        return SourceClassifier(name, own_z=name != baseline.method, normalise=baseline.normalise).fit(X, y, X_target)
    options = {"n_components": baseline.dimension, "normalise": baseline.normalise}
    if discovered is None:
        return GFKClassifier(in_kernel, **options).fit(X, y, X_target)
    latent = LatentDomainClassifier(in_kernel, **options, random_state=baseline.seed)
    return latent.fit(X, y, X_target, discovered.best.labels_)
