"""A task on one's own images, with all that is decided about it, and the experiment that it is."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from latent_domains.adapt.folder import Paths
from latent_domains.adapt.learner import Learner, for_features
from latent_domains.backbones.extraction import describe_pictures
from latent_domains.common.program import ProgramError
from latent_domains.data.domain_images import TaskImages, notes_on_classes
from latent_domains.data.preprocessing import USUAL, Reading
from latent_domains.experiment.batches import batch_sizes
from latent_domains.experiment.datasets import DATASETS, Dataset, on_lite0
from latent_domains.experiment.experiment import Experiment, make_experiment
from latent_domains.experiment.methods import LATENT, METHODS
from latent_domains.experiment.networks import NETWORKS
from latent_domains.experiment.recipe import Recipe

FEWEST_ROWS = 8
"""The fewest images of each domain in a batch, for its statistics. A domain that has fewer repeats them."""

DEFAULT_K = 2
"""Latent domains of a single source, which counts as an undivided mixture."""


@dataclass(frozen=True)
class Task:
    """``images`` for a learner, the options of the method that are ``chosen``, the ``command`` that asks for it.

    ``reading`` says how pictures are read, ``counted`` that k is what was counted, ``weights`` what training begins
    from (:func:`latent_domains.adapt.training.starting_weights`). The rest decides how it is carried out: processes at
    a time, threads of a training, and so on.
    """

    paths: Paths
    images: TaskImages
    learner: Learner
    chosen: Mapping[str, Any]
    command: str
    reading: Reading = USUAL
    counted: bool = False
    weights: str | None = None
    jobs: int = 1
    threads: int | None = None
    solver_mode: str | None = None
    skip_unreadable: bool = False
    allow_missing_classes: bool = False

    @property
    def counts_domains(self) -> bool:
        """Whether the number of domains is to be counted."""
        return self.chosen["method"] == "style_w" and self.chosen["k"] is None

    @property
    def pictures(self) -> Dataset:
        """A dataset with pictures as the learner takes them, read as this task reads them."""
        return replace(self.learner.pictures, reading=self.reading)

    @property
    def in_order(self) -> list["Task"]:
        """The task on features alone, if there is one to compare with, then the task itself."""
        if not (alone := self.learner.features_alone):
            return [self]
        chosen = for_features(alone, self.chosen)
        return [replace(self, paths=self.paths.features, learner=alone, chosen=chosen, weights=None), self]


def experiment_of(task: Task, counts: Mapping[str, int]) -> Experiment:
    """Make the experiment on ``counts`` images of each domain.

    A batch has the size of the learner's recipe, or is smaller if domains are small. A training has four tests and four
    snapshots or more. There are fewer tests if the target is large: between two tests, training reads at least as many
    images as a test. Raises ProgramError naming an option that does not fit.
    """
    images, chosen, recipe = task.images, task.chosen, task.learner.recipe
    sources, targets = (tuple(each.name for each in group) for group in (images.sources, images.targets))
    seen = (*sources, *targets) if METHODS[chosen["method"]].sees_target else sources
    split, sizes = chosen.get("batch_split"), [counts[domain] for domain in seen]
    most = sum(sizes) // len(seen) if split == "by_size" else min(sizes)
    rows = max(FEWEST_ROWS, min(_rows(recipe, len(sources), len(seen)), most))
    iterations = chosen["iterations"] or recipe.iterations
    as_long_as_a_test = -(-sum(counts[target] for target in targets) // (rows * len(seen)))
    recipe = replace(
        recipe,
        iterations=iterations,
        batch_size=_batch_size(recipe.batch_split, rows, len(sources), len(seen)),
        test_interval=min(iterations, max(min(recipe.test_interval, max(1, iterations // 4)), as_long_as_a_test)),
        snapshot_interval=min(recipe.snapshot_interval, max(1, iterations // 4)),
        data_order="shuffled",  # such sets are small, and epochs many
        solver_mode="CPU" if task.learner.on_features else "GPU",
    )
    data = describe_pictures(task.paths.name, images, task.pictures, counts, recipe, task.command)
    if task.learner.on_features:
        data = replace(on_lite0(data, recipe, task.command), usage_images=data.usage_images)
    k = chosen["k"]
    if chosen["method"] in LATENT and k is None and len(images.sources) == 1 and not chosen.get("domains"):
        k = DEFAULT_K
    size = chosen.get("batch_size")
    if split and not size:
        size = _batch_size(split, rows, len(sources), len(seen))
    experiment = make_experiment(data, **{**chosen, "k": k, "batch_size": size})
    if task.counted:
        experiment = replace(experiment, method=replace(experiment.method, counted=True))
    if data.features and experiment.method.has_target_branch and experiment.method.branch_input == "early":
        raise ProgramError(
            f"branch_input: got 'early' with k_target {experiment.k_target}, expected final: the model tells latent "
            "targets apart, and no stock layer makes statistics of early blocks"
        )
    batch_sizes(experiment, counts)  # of a batch that is too small
    return experiment


def _rows(recipe: Recipe, sources: int, domains: int) -> int:
    """Return the images of each of ``domains`` domains in a batch, in the mean; ``sources`` of them are sources."""
    match recipe.batch_split:
        case "per_domain":
            return recipe.batch_size
        case "per_group":
            return recipe.batch_size * (1 + domains - sources) // domains
        case _:
            return recipe.batch_size // domains


def _batch_size(batch_split: str, rows: int, sources: int, domains: int) -> int:
    """Return the size, as ``batch_split`` counts, of a batch of ``rows`` images for each of ``domains`` domains."""
    match batch_split:
        case "per_domain":
            return rows
        case "per_group":
            return max(FEWEST_ROWS, rows * domains // (1 + domains - sources))
        case _:
            return rows * domains


def batch_notes(images: TaskImages, experiment: Experiment) -> Iterator[str]:
    """Say if a small domain makes batches smaller than the network's recipe, unless the size was chosen."""
    sizes = {domain.name: len(domain.entries) for domain in images.domains if domain.name in experiment.batch_inputs}
    ours, smallest = experiment.task.data.recipe, min(sizes, key=sizes.__getitem__)
    recipe = DATASETS[NETWORKS[experiment.net.network].recipe].recipe
    sources = len(experiment.task.source_inputs)
    rows, usual = _rows(ours, sources, len(sizes)), _rows(recipe, sources, len(sizes))
    size = _batch_size(experiment.recipe.batch_split, rows, sources, len(sizes))
    if rows < usual and experiment.recipe.batch_size == size:
        batch = sum(batch_sizes(experiment, sizes).values())
        yield (
            f"{smallest} has {sizes[smallest]} images: so a batch has {batch} images, not {usual * len(sizes)} as the "
            "network's recipe says (--batch-size)"
        )


def notes_on(images: TaskImages, experiment: Experiment) -> Iterator[str]:
    """What is worth knowing about images and the experiment on them, a line each."""
    yield from images.notes
    yield from notes_on_classes(images, equal=experiment.recipe.equal_classes)
    yield from batch_notes(images, experiment)
