"""Which classifier is saved: the one that is most accurate on held-out sources.

All candidates are linear on the target's features: a backbone's, or the input of a fine-tuned net's own classifier. So
one net has each of them, with other weights of its classifier and, on a backbone's features, other means and variances
of the target.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import caffe
import numpy as np
from pydantic import TypeAdapter

from latent_domains.baselines.features import Floats, read_features
from latent_domains.baselines.linear import LinearHead, neighbours, smoothness, spread, standardised
from latent_domains.baselines.run import Labelled, overall_accuracy, test_on
from latent_domains.common.files import json_text, read_json, remove, write_together
from latent_domains.common.validation import checked
from latent_domains.experiment.baselines import ON_A_RUN
from latent_domains.experiment.experiment import SETTINGS, Experiment, make_experiment
from latent_domains.models.classifier import blob_of_images
from latent_domains.models.model import Model, read_model, weights_bytes
from latent_domains.runs.record import OnTarget
from latent_domains.runs.run_folder import RunFolder, is_run_folder
from latent_domains.runs.write import write_run
from latent_domains.training.train import train_all

CANDIDATES = {
    "head": "the trained head",
    "spread": ON_A_RUN["spread"],
    "logistic": "logistic regression, each side standardised",
}
"""By name, in words; of equal ones the first is chosen."""

OF_NET = {"head": "the fine-tuned net", "spread": ON_A_RUN["spread_net"]}
"""Candidates for a net that was trained as a whole."""

MOST_HELD_OUT = 4
"""The most sources that are held out, the largest ones; each needs its own training."""

MOST = 20_000
"""The most images of all domains for which candidates are fitted: they take about ten seconds and 1 GB."""

SMOOTH = 0.9
"""If no source is held out, predictions are spread if they are at least this smooth: from 0.9 on that helped on most
held-out sources, and below it hurt on most (results/head).
"""

CLASSIFIER, NORMALISATION = "classifier", "features_mda"
"""Layers of the head (:mod:`latent_domains.networks.any_features`)."""


def can_choose(run: RunFolder) -> bool:
    """Say whether a run has candidates: its last layer is a linear classifier, adapted to one target domain."""
    experiment = run.experiment
    adapts = experiment.method.sees_target and experiment.k_target == 1
    if not adapts or sum(experiment.data.counts.values()) > MOST:
        return False
    if experiment.data.features is not None:
        return experiment.recipe.head == "linear"
    *_, last, softmax = run.read_net("deploy").layer
    return last.name == CLASSIFIER and last.type == "InnerProduct" and softmax.bottom[0] == last.top[0]


@dataclass(frozen=True)
class Choice:
    """The choice and its reasons; the contents of choice.json.

    ``held_out`` has the accuracy of each candidate on each held-out source (of a fine-tuned net: of the candidates on
    features alone), ``smoothness`` is that of the trained predictions on the target, and ``targets`` the accuracy of
    each candidate on the labelled targets.
    """

    chosen: Literal[*CANDIDATES]
    held_out: dict[str, dict[str, float]]
    smoothness: float
    targets: dict[str, dict[str, OnTarget]]

    def text(self) -> str:
        """Return the contents of the file."""
        return json_text(TypeAdapter(Choice).dump_python(self, mode="json", exclude_none=True))

    @classmethod
    def read(cls, file: Path) -> "Choice":
        """Read the file."""
        return checked(cls, read_json(file), str(file))

    def accuracy(self, name: str) -> float | None:
        """Return the accuracy of a candidate on all labelled images of the targets; None if there are none."""
        return overall_accuracy(found) if (found := self.targets[name]) else None

    @property
    def words(self) -> dict[str, str]:
        """The candidates by name, in words."""
        return CANDIDATES if self.targets.keys() == CANDIDATES.keys() else OF_NET

    @property
    def reason(self) -> str:
        """The reason of the choice, in words."""
        if not self.held_out:
            limit = f"{'at least' if self.chosen == 'spread' else 'below'} {SMOOTH:g}"
            return f"no source was held out; predictions have a smoothness of {self.smoothness:.2f}, {limit}"
        compared = ", ".join(f"{CANDIDATES[name]} {100 * _mean(self.held_out, name):.1f} %" for name in self.words)
        alone = "" if self.words is CANDIDATES else ", with the features alone"
        return f"mean accuracy on the sources that were held out{alone}: {compared}"


@dataclass(frozen=True, eq=False)
class Candidates:
    """The candidates of a run from its sources to its targets, by name, and their test data.

    ``model`` is the run's deploy net. ``features`` (n×d) are those of all targets; ``heads`` read them standardised.
    ``tests`` has the standardised ones and the labels of each target that has labels; ``smoothness`` is that of the
    trained predictions.
    """

    run: RunFolder
    model: Model
    heads: dict[str, LinearHead]
    features: Floats
    tests: dict[str, Labelled]
    smoothness: float

    @classmethod
    def fit(cls, run: RunFolder) -> "Candidates":
        """Fit the candidates of a finished run; only logistic regression reads labels, the sources'."""
        experiment, is_net = run.experiment, run.experiment.data.features is None
        model = read_model(run.net("deploy"), run.final_snapshot().model)
        targets = {target: _features(run, target) for target in experiment.targets}
        features = np.concatenate([of for of, _ in targets.values()])
        Z, trained = standardised(features), LinearHead(*(blob.astype(np.float64) for blob in model.blobs[CLASSIFIER]))
        if is_net:
            trained = trained.of_standardised(features)
        found, graph = trained.probabilities(Z), neighbours(Z)
        heads = {"head": trained, "spread": LinearHead.distil(Z, spread(found, graph))}
        if not is_net:
            X, y = (
                np.concatenate(each) for each in zip(*(_features(run, one) for one in experiment.sources), strict=True)
            )
            heads["logistic"] = LinearHead.fit(standardised(X), y, experiment.data.classes)
        parts = np.split(Z, np.cumsum([len(labels) for _, labels in targets.values()])[:-1])
        tests = {
            target: (part, labels)
            for (target, (_, labels)), part in zip(targets.items(), parts, strict=True)
            if target in experiment.task.tests.values()
        }
        return cls(run, model, heads, features, tests, smoothness(found, graph))

    def test(self, name: str) -> dict[str, OnTarget]:
        """Test a candidate on each target that has labels. The trained classifier was tested by the run's record."""
        if name == "head":
            return self.run.read_record().targets
        head = self.heads[name]
        return test_on(lambda Z: head.probabilities(Z).argmax(axis=1), self.tests, self.run.experiment.data.classes)

    def weights(self, name: str) -> bytes:
        """Return a caffemodel of the run's deploy net with a candidate as its classifier.

        The trained classifier keeps the running means and variances. On a backbone's features, others use those of all
        the target's features; a net that was trained as a whole normalises nothing there, so the classifier does it.
        """
        if name == "head":
            return weights_bytes(self.model)
        head = self.heads[name]
        if NORMALISATION not in self.model.blobs:
            head = head.of_raw(self.features)
            return self._with({CLASSIFIER: [head.weights, head.bias]})
        means, variances, divisor = (blob.copy() for blob in self.model.blobs[NORMALISATION])  # the target's are last
        means[-1], variances[-1], divisor[-1] = self.features.mean(axis=0), self.features.var(axis=0), 1
        return self._with({CLASSIFIER: [head.weights, head.bias], NORMALISATION: [means, variances, divisor]})

    def _with(self, blobs: Mapping[str, Sequence[Floats]]) -> bytes:
        return weights_bytes(replace(self.model, blobs={**self.model.blobs, **blobs}))


def _features(run: RunFolder, domain: str) -> Labelled:
    """Return the classifier's input for a domain's images, before it is standardised (n×d), and their labels."""
    lmdb, data = run.train_lmdbs[domain], run.experiment.data
    if data.features is not None:
        return read_features(lmdb, data)
    (blob,) = (layer.bottom[0] for layer in run.read_net("deploy").layer if layer.name == CLASSIFIER)
    net = run.load_net("deploy", caffe.TEST, run.final_snapshot().model)
    rows, labels = blob_of_images(net, blob, lmdb, data.preprocessing, data.test_batch_limit)
    return rows.reshape(len(rows), -1).astype(np.float64), labels


def _mean(held_out: Mapping[str, Mapping[str, float]], name: str) -> float:
    return float(np.mean([found[name] for found in held_out.values()]))


def train_held_out(folder: RunFolder, root: Path, *, threads: int | None, solver_mode: str | None) -> list[RunFolder]:
    """Train a run from the other sources to each source, as ``folder`` was trained, in folders of ``root``.

    Finished runs are kept. With a single source there are none.
    """
    experiment = folder.experiment
    if len(experiment.sources) < 2:
        return []
    counts = experiment.data.counts
    chosen = sorted(experiment.sources, key=lambda source: -counts[source])[:MOST_HELD_OUT]
    runs = [_run(_without(folder, source), root / source, folder.data_folder, solver_mode) for source in chosen]
    print(f"holding out {', '.join(chosen)} in turn, to choose the classifier …", flush=True)
    train_all(runs, jobs=2, threads=threads and max(1, threads // 2), resume=True, solver_mode=solver_mode)
    return runs


def _run(experiment: Experiment, path: Path, data: Path, solver_mode: str | None) -> RunFolder:
    """Return the run folder at ``path``; write it again if it contains another experiment."""
    if is_run_folder(path):
        if (folder := RunFolder.load(path)).experiment == experiment:
            return folder
        remove(path)
    return write_run(experiment, path, data=data, solver_mode=solver_mode)


def _without(folder: RunFolder, source: str) -> Experiment:
    """Return the same experiment with ``source`` as the target.

    With only one other source it is DIAL, since that source has no domains.
    """
    experiment = folder.experiment
    others = tuple(other for other in experiment.sources if other != source)
    chosen = {name: value for name, value in experiment.settings.items() if name in SETTINGS}
    chosen |= {"sources": others, "targets": (source,), "batch_size": _batch_size(experiment, len(others))}
    if experiment.method.domains:
        chosen["domains"] = folder.domains_file
    elif "k" in chosen:
        chosen["k"] = min(chosen["k"], len(others))
    if len(others) == 1:
        chosen = _dial(experiment, chosen)
    return make_experiment(experiment.data, **chosen)


def _dial(experiment: Experiment, chosen: dict[str, Any]) -> dict[str, Any]:
    of_branch = {*vars(experiment.method), "lambda_d", "lambda_t"}
    return {name: value for name, value in chosen.items() if name not in of_branch} | {"method": "dial"}


def _batch_size(experiment: Experiment, sources: int) -> int:
    """Return the size of a batch with as many images of each domain."""
    size, domains = experiment.recipe.batch_size, len(experiment.batch_inputs)
    match experiment.recipe.batch_split:
        case "per_domain" | "per_group":
            return size
        case _:
            return size // domains * (sources + len(experiment.targets))


def accuracies(held_out: Sequence[RunFolder]) -> dict[str, dict[str, float]]:
    """Return the accuracy of each candidate on the target of each run, a held-out source."""
    found = {}
    for run in held_out:
        candidates, (source,) = Candidates.fit(run), run.experiment.targets
        found[source] = {name: candidates.test(name)[source].accuracy for name in candidates.heads}
    return found


def choose(run: RunFolder, held_out: Mapping[str, Mapping[str, float]], choice: Path, weights: Path) -> None:
    """Choose the classifier of a finished run by :func:`accuracies`, if there are any.

    Writes ``choice`` (:class:`Choice`), and the caffemodel ``weights``.
    """
    candidates = Candidates.fit(run)
    if held_out:
        chosen = max(candidates.heads, key=lambda name: _mean(held_out, name))
    else:
        chosen = "spread" if candidates.smoothness >= SMOOTH else "head"
    targets = {name: candidates.test(name) for name in candidates.heads}
    with write_together(choice, weights, force=True) as (text, model):
        text.write_text(Choice(chosen, held_out, candidates.smoothness, targets).text())
        model.write_bytes(candidates.weights(chosen))
