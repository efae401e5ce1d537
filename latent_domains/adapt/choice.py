"""Which classifier of features is saved: what is right most often where sources are held out.

All candidates are linear on the target's standardised features, so one net has each of them: by other weights of its
classifier, and other means and variances of the target.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import TypeAdapter

from latent_domains.baselines.checks import Floats
from latent_domains.baselines.features import read_features
from latent_domains.baselines.linear import LinearHead, standardised
from latent_domains.baselines.run import Labelled, overall_accuracy, test_on
from latent_domains.baselines.spreading import neighbours, smoothness, spread
from latent_domains.common.files import json_text, read_json, write_together
from latent_domains.common.validation import checked
from latent_domains.models.model import Model, read_model, weights_bytes
from latent_domains.runs.record import OnTarget
from latent_domains.runs.run_folder import RunFolder

CANDIDATES = {
    "head": "the trained head",
    "spread": "the trained head, its predictions spread over neighbours",
    "logistic": "logistic regression, each side standardised",
}
"""By name, in words; of equals the first is chosen."""

MOST = 20_000
"""Images of all domains: these take some ten seconds and 1 GB. Beyond, the trained head is saved."""

SMOOTH = 0.9
"""With a single source predictions are spread if they are as smooth: from 0.9 on that gained on most held-out sources,
and below it lost on most (results/head)."""

CLASSIFIER, NORMALISATION = "classifier", "features_mda"
"""Layers of the head (:mod:`latent_domains.nets.any_features`)."""


def can_choose(run: RunFolder) -> bool:
    """Whether a run's head is one of CANDIDATES: linear, on features, adapted to one target domain."""
    experiment = run.experiment
    is_linear = experiment.data.features is not None and experiment.recipe.head == "linear"
    adapts = experiment.method.sees_target and experiment.k_target == 1
    return is_linear and adapts and sum(experiment.data.counts.values()) <= MOST


@dataclass(frozen=True)
class Choice:
    """What was chosen, and why; the contents of choice.json.

    ``held_out`` has the accuracy of each candidate on each source that was held out, ``smoothness`` is that of the
    trained head's predictions on the target, and ``targets`` the accuracy of each candidate on the labelled targets.
    """

    chosen: Literal[*CANDIDATES]
    held_out: dict[str, dict[str, float]]
    smoothness: float
    targets: dict[str, dict[str, OnTarget]]

    def text(self) -> str:
        """The contents of the file."""
        return json_text(TypeAdapter(Choice).dump_python(self, mode="json", exclude_none=True))

    @classmethod
    def read(cls, file: Path) -> "Choice":
        """Read the file. Raises ProgramError naming the key that is wrong."""
        return checked(cls, read_json(file), str(file))

    def accuracy(self, name: str) -> float | None:
        """The accuracy of a candidate on all labelled images of the targets; None if there are none."""
        return overall_accuracy(found) if (found := self.targets[name]) else None

    @property
    def reason(self) -> str:
        """Why, in words."""
        if not self.held_out:
            limit = f"{'at least' if self.chosen == 'spread' else 'below'} {SMOOTH:g}"
            return (
                f"a single source cannot be held out; predictions have a smoothness of {self.smoothness:.2f}, {limit}"
            )
        means = {name: np.mean([of[name] for of in self.held_out.values()]) for name in CANDIDATES}
        compared = ", ".join(f"{CANDIDATES[name]} {100 * mean:.1f} %" for name, mean in means.items())
        return f"mean accuracy on the sources that were held out: {compared}"


@dataclass(frozen=True, eq=False)
class Candidates:
    """The candidates of a run from its sources to its targets, by name, and what they are tested on.

    ``model`` is the run's deploy net. ``features`` (n×d) are those of all targets, ``tests`` has the standardised ones
    and the labels of each target that has labels, ``smoothness`` is that of the trained head's predictions.
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
        data = run.experiment.data
        sources, targets = (
            {domain: read_features(run.train_lmdbs[domain], data) for domain in domains}
            for domains in (run.experiment.sources, run.experiment.targets)
        )
        X, y = (np.concatenate(part) for part in zip(*sources.values(), strict=True))
        features = np.concatenate([of for of, _ in targets.values()])
        Z = standardised(features)
        model = read_model(run.net("deploy"), run.final_snapshot().model)
        head = LinearHead(*(blob.astype(np.float64) for blob in model.blobs[CLASSIFIER]))
        found, graph = head.probabilities(Z), neighbours(Z)
        heads = {
            "head": head,
            "spread": LinearHead.distil(Z, spread(found, graph)),
            "logistic": LinearHead.fit(standardised(X), y, data.classes),
        }
        parts = np.split(Z, np.cumsum([len(labels) for _, labels in targets.values()])[:-1])
        tests = {
            target: (part, labels)
            for (target, (_, labels)), part in zip(targets.items(), parts, strict=True)
            if target in run.experiment.task.tests.values()
        }
        return cls(run, model, heads, features, tests, smoothness(found, graph))

    def test(self, name: str) -> dict[str, OnTarget]:
        """Test a candidate on each target that has labels. The trained head was tested by the run's record."""
        if name == "head":
            return self.run.read_record().targets
        head = self.heads[name]
        return test_on(lambda Z: head.probabilities(Z).argmax(axis=1), self.tests, self.run.experiment.data.classes)

    def weights(self, name: str) -> bytes:
        """Return a caffemodel of the run's deploy net with a candidate as its classifier.

        The trained head keeps the running means and variances; others take those of all the target's features.
        """
        if name == "head":
            return weights_bytes(self.model)
        head = self.heads[name]
        means, variances, divisor = (blob.copy() for blob in self.model.blobs[NORMALISATION])  # the target's are last
        means[-1], variances[-1], divisor[-1] = self.features.mean(axis=0), self.features.var(axis=0), 1
        changed = {CLASSIFIER: [head.weights, head.bias], NORMALISATION: [means, variances, divisor]}
        return weights_bytes(replace(self.model, blobs={**self.model.blobs, **changed}))


def choose(run: RunFolder, held_out: Sequence[RunFolder], choice: Path, weights: Path) -> None:
    """Choose the classifier of a finished run: write ``choice`` (:class:`Choice`), and its caffemodel ``weights``."""
    accuracies = {}
    for other in held_out:
        candidates, (source,) = Candidates.fit(other), other.experiment.targets
        accuracies[source] = {name: candidates.test(name)[source].accuracy for name in CANDIDATES}
    candidates = Candidates.fit(run)
    if accuracies:
        chosen = max(CANDIDATES, key=lambda name: np.mean([found[name] for found in accuracies.values()]))
    else:
        chosen = "spread" if candidates.smoothness >= SMOOTH else "head"
    targets = {name: candidates.test(name) for name in CANDIDATES}
    with write_together(choice, weights, force=True) as (text, model):
        text.write_text(Choice(chosen, accuracies, candidates.smoothness, targets).text())
        model.write_bytes(candidates.weights(chosen))
