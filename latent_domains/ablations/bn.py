"""The paper's "in place of every BN" without training: a backbone's BN recomputed for each part of the sources.

Every BN of EfficientNet-Lite0 gets the statistics of each part by itself, for the target its own, and a linear
classifier of the sources' features is tested on the target's. The parts are the latent domains that a run's branch
found, and beside them all sources as one, their true domains, and random parts. All of it is done once more to the
final features of ImageNet's net alone, which is what mDA on features does.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import scale

from latent_domains.ablations.lite0_statistics import with_statistics_of
from latent_domains.baselines.classifiers import SourceClassifier
from latent_domains.baselines.features import read_features
from latent_domains.common.markdown import table
from latent_domains.common.program import ProgramError
from latent_domains.convert.torch.read import read_lite0
from latent_domains.data import lmdb_io
from latent_domains.data.control_domains import random_domains
from latent_domains.data.weights_files import in_package
from latent_domains.experiment.datasets import Dataset, named
from latent_domains.experiment.networks import LITE0
from latent_domains.nets.lite0 import HEAD, PREPROCESSING
from latent_domains.runs.domain_usage import in_both, nmi
from latent_domains.runs.outputs import source_probabilities
from latent_domains.runs.run_folder import RunFolder
from latent_domains.tables.markdown import signed
from latent_domains.tables.paired import difference
from latent_domains.tables.results import Result

EVERY, FINAL = "every BN", "final features"
"""Where each part has its own statistics."""

ONE, TRUE, LATENT, RANDOM = "one part", "true domains", "latent domains", "random parts"
"""What the sources are divided into."""

Rows = NDArray[np.int64]
"""Pictures of a dataset: its domain's place in the dataset and its place in the domain's LMDB, for each (n×2)."""

Array = NDArray[np.float32]


class Pictures:
    """The pictures of a dataset of features, those features, and others; ``data`` is the folder of the LMDBs.

    Raises ProgramError if the features are not EfficientNet-Lite0's.
    """

    def __init__(self, dataset: Dataset, data: Path) -> None:
        if dataset.features is None or dataset.features.backbone != "lite0":
            raise ProgramError(f"dataset {dataset.name}: expected features of EfficientNet-Lite0, pacs_lite0 say")
        self._dataset, self._images, self._data = dataset, named(dataset.images), data
        self._net = read_lite0(in_package(LITE0), head=False)
        self._read: dict[int, tuple[NDArray[np.uint8], NDArray[np.float64], NDArray[np.int64]]] = {}
        self._recomputed: dict[bytes, Array] = {}

    def rows(self, domain: str) -> Rows:
        """All pictures of a domain."""
        place = self._dataset.domains.index(domain)
        count = len(self._domain(place)[0])
        return np.column_stack([np.full(count, place), np.arange(count)])

    def labels(self, rows: Rows) -> NDArray[np.int64]:
        return np.array([self._domain(place)[2][i] for place, i in rows])

    def features(self, rows: Rows) -> NDArray[np.float64]:
        """The final features (n×1280) with ImageNet's statistics."""
        return np.stack([self._domain(place)[1][i] for place, i in rows])

    def recomputed(self, rows: Rows) -> Array:
        """The final features with these pictures' own statistics in every BN."""
        key = rows.tobytes()
        if key not in self._recomputed:
            pictures = PREPROCESSING.inputs([self._domain(place)[0][i] for place, i in rows])
            self._recomputed[key] = with_statistics_of(pictures, self._net)[1]
        return self._recomputed[key]

    def _domain(self, place: int) -> tuple[NDArray[np.uint8], NDArray[np.float64], NDArray[np.int64]]:
        """Pictures, features and labels of a domain. Raises ProgramError if they do not belong together."""
        if place not in self._read:
            lmdbs = [self._data / of.train_lmdb(of.domains[place]) for of in (self._images, self._dataset)]
            lmdb_io.count_filled(lmdbs[0], self._images.made_by)
            images, labels = lmdb_io.read_images(lmdbs[0])
            features, same = read_features(lmdbs[1], self._dataset, quiet=True)
            if not np.array_equal(labels, same):
                raise ProgramError(f"{lmdbs[1]}: labels that are not those of {lmdbs[0]}, expected its features")
            self._read[place] = images, features, labels
        return self._read[place]


def check_apart(folders: Sequence[RunFolder]) -> None:
    """Raise ProgramError if two runs have the same target and seed: the table has one place for both."""
    found: dict[tuple[str, int], RunFolder] = {}
    for folder in folders:
        target, seed = folder.experiment.target, folder.experiment.seed
        if (first := found.setdefault((target, seed), folder)) is not folder:
            raise ProgramError(
                f"{folder.path}: target {target} and seed {seed}, as {first.path}, expected each pair once"
            )


def measure(folder: RunFolder, pictures: Pictures, of_source: int, of_target: int) -> dict[str, Any]:
    """The accuracies on ``of_target`` pictures of a run's targets, the same for every run, with ``of_source`` of each
    source, drawn by the run's seed.

    Raises ProgramError if no branch of the run predicts source domains, or it is not trained.
    """
    experiment = folder.experiment
    if not experiment.has_branch:
        raise ProgramError(f"{folder.path}: {experiment.method} has no branch that predicts domains: expected mda")
    probabilities = source_probabilities(folder, folder.final_snapshot(), quiet=True)
    rng = np.random.default_rng(experiment.seed)
    chosen = {source: np.sort(rng.permutation(len(found))[:of_source]) for source, found in probabilities.items()}
    sizes = [len(places) for places in chosen.values()]
    true = np.repeat(np.arange(len(sizes)), sizes)
    latent = np.concatenate([probabilities[source][places].argmax(axis=1) for source, places in chosen.items()])
    divisions = {
        ONE: np.zeros_like(true),
        TRUE: true,
        LATENT: latent,
        RANDOM: np.concatenate(random_domains(sizes, experiment.k, experiment.seed)),
    }
    rows = np.concatenate([pictures.rows(source)[places] for source, places in chosen.items()])
    whole = [pictures.rows(target) for target in experiment.targets]
    targets = [np.random.default_rng(0).permutation(of_one)[:of_target] for of_one in whole]
    y, expected = pictures.labels(rows), pictures.labels(np.concatenate(targets))

    def accuracy(features: Callable[[Rows], NDArray[np.floating]], parts: NDArray[np.int64]) -> float:
        X = np.empty((len(rows), HEAD))
        for part in np.unique(parts):
            X[parts == part] = features(rows[parts == part])
        predicted = SourceClassifier().fit(X, y).predict(np.concatenate([features(target) for target in targets]))
        return float((predicted == expected).mean())

    found = {"ImageNet's statistics": accuracy(pictures.features, divisions[ONE])}
    for where, features in ((EVERY, pictures.recomputed), (FINAL, lambda some: scale(pictures.features(some)))):
        found |= {f"{where}, {name}": accuracy(features, parts) for name, parts in divisions.items()}
    return {
        "experiment": experiment.to_json(),
        "images": dict(zip([*chosen, *experiment.targets], [*sizes, *map(len, targets)], strict=True)),
        "latent_nmi": nmi(in_both(true, latent)),
        "accuracy": found,
    }


def table_of(results: Sequence[dict[str, Any]]) -> str:
    """Accuracies in % by target, over the seeds, their mean, and what that is less the same with one part."""
    by_target: dict[str, dict[int, dict[str, float]]] = {}
    for result in results:
        of_run = result["experiment"]
        by_target.setdefault("+".join(of_run["targets"]), {})[of_run["seed"]] = result["accuracy"]
    whole = set.intersection(*(set(by_seed) for by_seed in by_target.values()))
    means, lines = {}, []
    for name in results[0]["accuracy"]:
        cells = [
            Result({seed: 100 * found[name] for seed, found in by_seed.items()}, len(by_seed))
            for by_seed in by_target.values()
        ]
        mean = Result({seed: fmean(cell.accuracies[seed] for cell in cells) for seed in sorted(whole)}, len(whole))
        means[name] = mean
        less = difference(mean, means.get(f"{name.partition(',')[0]}, {ONE}", mean))
        words = f"{signed(less.mean, 2)} ({signed(less.low, 2)} to {signed(less.high, 2)})" if less else ""
        lines.append([name, *(cell.in_words() for cell in (*cells, mean)), words])
    return table(["statistics", *by_target, "mean", f"less {ONE}, 95 % interval"], lines)
