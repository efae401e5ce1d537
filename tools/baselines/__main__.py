"""Run a shallow baseline on feature LMDBs and write its record, OUT.json.

    python -m tools.baselines gong2013 --dataset office31_fc7 --sources amazon+dslr --targets webcam out.json

| method      | what it does |
| ----------- | ------------ |
| gong2013    | maximally distinctive latent domains, a geodesic flow kernel (GFK) from each to the target |
| hoffman2012 | latent domains by constrained clustering, the same kernels |
| gfk         | one GFK from all sources to the target: "original", the sources as one domain |
| svm         | no adaptation: a linear SVM of the sources |

Labels of the target are read for the accuracy alone. Methods and choices: docs/baselines.md.
"""

import argparse
import resource
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tools import datasets
from tools.arguments import natural, positive
from tools.baselines import (
    ConstrainedDomains,
    DistinctiveDomains,
    GFKClassifier,
    LatentDomainClassifier,
    SourceClassifier,
    choose_domains,
)
from tools.baselines.checks import check_training
from tools.baselines.classifiers import VARIANTS
from tools.baselines.features import read_features
from tools.domain_usage import domain_usage
from tools.experiment import Experiment, make_experiment
from tools.files import check_free, json_text, write_text
from tools.program import ROOT, ProgramError, run
from tools.versions import commit, hardware, versions

DISCOVERY = {"gong2013": DistinctiveDomains, "hoffman2012": ConstrainedDomains}
METHODS = (*DISCOVERY, "gfk", "svm")

Table = tuple[NDArray[np.float64], NDArray[np.int64]]
"""Features (n×d) and labels (n)."""


def _k(text: str) -> int | None:
    return None if text == "auto" else positive(text)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tools.baselines", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("method", choices=METHODS)
    parser.add_argument("--dataset", required=True, metavar="NAME", help="dataset of features, office31_fc7 say")
    parser.add_argument("--sources", metavar="A+B+…", help="source domains (default: the paper's)")
    parser.add_argument("--targets", "--target", metavar="A+…", help="target domain or domains (default: the paper's)")
    parser.add_argument(
        "--undivided",
        action="store_true",
        help="the sources come as one LMDB of unknown mixture, named A+B+… (python -m tools.join_lmdbs)",
    )
    parser.add_argument(
        "--k",
        type=_k,
        metavar="K|auto",
        help="latent source domains; auto: 2 to --max-k, by cross-validation within the domains (default: auto)",
    )
    parser.add_argument("--max-k", type=positive, default=5, metavar="K", help="largest K of auto (default: 5)")
    parser.add_argument(
        "--variant",
        choices=VARIANTS,
        help="classifiers of all latent domains, weighted for each image by the probability of its domain, or that of "
        "the domain nearest to the target (default: ensemble)",
    )
    parser.add_argument(
        "--min-domain",
        type=positive,
        metavar="N",
        help="gong2013: the fewest images of a domain (default: the number of classes, as in the paper)",
    )
    parser.add_argument("--seed", type=natural, default=0, help="default: 0")
    parser.add_argument(
        "--limit",
        type=positive,
        metavar="N",
        help="learn from N records of each source and target only, evenly spaced; tests are always on all",
    )
    parser.add_argument("--data", type=Path, default=ROOT / "data", metavar="DIR", help="data folder (default: data)")
    parser.add_argument("--quiet", action="store_true", help="no progress bars")
    parser.add_argument("--force", action="store_true", help="replace OUT.json")
    parser.add_argument("out", type=Path, metavar="OUT.json", help="the record")
    arguments = parser.parse_args()
    if arguments.method not in DISCOVERY:
        for option in ("k", "variant"):
            if getattr(arguments, option) is not None:
                parser.error(f"argument --{option}: {arguments.method} discovers no domains")
    if arguments.min_domain is not None and arguments.method != "gong2013":
        parser.error(f"argument --min-domain: {arguments.method} has no such bound")
    if arguments.max_k < 2:
        parser.error("argument --max-k: got 1, expected at least 2")
    return arguments


def main() -> None:
    """Read the features, run the method, write the record."""
    options = _arguments()
    check_free(options.out, force=options.force)
    experiment = make_experiment(
        datasets.named(options.dataset),
        "dial",
        sources=tuple(options.sources.split("+")) if options.sources is not None else None,
        targets=tuple(options.targets.split("+")) if options.targets is not None else None,
        undivided=options.undivided,
        seed=options.seed,
    )
    if unlabelled := [target for target in experiment.targets if target in experiment.data.unlabelled]:
        raise ProgramError(f"targets: nobody knows the labels of {', '.join(unlabelled)}: there is no accuracy")
    record = _record(options, experiment)
    write_text(options.out, json_text(record))
    print(f"{options.out}: {100 * record['accuracy']:.2f} % on {experiment.target}")


def _record(options: argparse.Namespace, experiment: Experiment) -> dict[str, Any]:
    sources, targets, tests = _read(options, experiment)
    X, y = (np.concatenate(part) for part in zip(*sources.values(), strict=True))
    X_target = np.concatenate([features for features, _ in targets.values()])
    check_training(X, y)
    begin = time.monotonic()
    discovered = _discover(options, X, y) if options.method in DISCOVERY else None
    discovery = time.monotonic() - begin
    classifier = _adapt(options, X, y, X_target, discovered)
    correct = {
        target: int((classifier.predict(features) == labels).sum()) for target, (features, labels) in tests.items()
    }
    images = {target: len(labels) for target, (_, labels) in tests.items()}
    seconds = time.monotonic() - begin
    usage = None
    if discovered:
        ends = np.cumsum([len(labels) for _, labels in sources.values()])[:-1]
        usage = domain_usage(dict(zip(sources, np.split(discovered["assignments"], ends), strict=True))).to_json()
    return {
        "baseline": {
            "method": options.method,
            "variant": (options.variant or VARIANTS[0]) if discovered else None,
            "k": discovered["k"] if discovered else None,
            "learnability": discovered["learnability"] if discovered else None,
            "dataset": experiment.dataset,
            "sources": list(experiment.sources),
            "targets": list(experiment.targets),
            "min_domain": options.min_domain,
            "undivided": experiment.undivided,
            "seed": options.seed,
            "limit": options.limit,
            "source_images": len(X),
            "target_images": len(X_target),
            "features": X.shape[1],
        },
        "accuracy": sum(correct.values()) / sum(images.values()),
        "test_images": sum(images.values()),
        "targets": {
            target: {"accuracy": correct[target] / images[target], "test_images": images[target]} for target in tests
        },
        "domain_usage": usage,
        "seconds": round(seconds, 3),
        "discovery_seconds": round(discovery, 3) if discovered else None,
        "memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "commit": commit(),
        "versions": {**versions(), "scipy": version("scipy")},
        "hardware": hardware("CPU"),
    }


def _read(
    options: argparse.Namespace, experiment: Experiment
) -> tuple[dict[str, Table], dict[str, Table], dict[str, Table]]:
    """Tables of the sources, of the targets to adapt to and of those to test on, by domain."""
    data = experiment.data

    def read(lmdb: str, limit: int | None) -> Table:
        return read_features(options.data / lmdb, data, limit=limit, quiet=options.quiet)

    sources = {part: read(data.train_lmdb(part), options.limit) for part in experiment.source_parts}
    tests = {target: read(data.test_lmdb(target), None) for target in experiment.targets}
    targets = {}
    for target, test in tests.items():
        same = data.test_lmdb(target) == data.train_lmdb(target) and options.limit is None
        targets[target] = test if same else read(data.train_lmdb(target), options.limit)
    return sources, targets, tests


def _discover(options: argparse.Namespace, X: NDArray[np.float64], y: NDArray[np.int64]) -> dict[str, Any]:
    """Discover domains of the source: their number, A by number if that was chosen, and assignments (n×k)."""
    estimator = DISCOVERY[options.method]
    settings = {"random_state": options.seed, "verbose": not options.quiet}
    if options.min_domain is not None:
        settings["min_samples"] = options.min_domain
    if options.k is not None:
        found, learnability = estimator(options.k, **settings).fit(X, y), None
    else:
        largest = min(options.max_k, int(np.unique(y, return_counts=True)[1].min()))
        if largest < 2:
            raise ProgramError("k: a class has a single sample, so that auto can try no number of domains: pass --k 1")
        estimators = [estimator(k, **settings) for k in range(2, largest + 1)]
        found, learnability = choose_domains(estimators, X, y, seed=options.seed, verbose=not options.quiet)
    return {
        "k": found.n_domains,
        "learnability": learnability,
        "assignments": found.assignments_,
        "domains": found.labels_,
    }


def _adapt(
    options: argparse.Namespace,
    X: NDArray[np.float64],
    y: NDArray[np.int64],
    X_target: NDArray[np.float64],
    discovered: dict[str, Any] | None,
) -> SourceClassifier | GFKClassifier | LatentDomainClassifier:
    """The trained classifier of the target."""
    if discovered is None:
        classifier = SourceClassifier() if options.method == "svm" else GFKClassifier(random_state=options.seed)
        return classifier.fit(X, y, X_target)
    latent = LatentDomainClassifier(
        variant=options.variant or VARIANTS[0], random_state=options.seed, verbose=not options.quiet
    )
    return latent.fit(X, y, X_target, discovered["domains"])


if __name__ == "__main__":
    run(main)
