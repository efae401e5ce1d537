"""An adaptation on the user's own images with all its decisions: what is trained, options, the experiment."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from latent_domains.adapt.folder import Paths
from latent_domains.backbones.extraction import describe_pictures
from latent_domains.common.gpus import why_no_gpu
from latent_domains.common.program import ProgramError
from latent_domains.data.domain_images import TaskImages, notes_on_classes
from latent_domains.data.domains_file import read_domains_file
from latent_domains.data.preprocessing import USUAL, Reading
from latent_domains.experiment.batches import batch_sizes
from latent_domains.experiment.datasets import DATASETS, Dataset, adapted, of_network, on_lite0
from latent_domains.experiment.experiment import SETTINGS, Experiment, make_experiment
from latent_domains.experiment.methods import LATENT, METHODS
from latent_domains.experiment.networks import ANY_FEATURES, BACKBONES, NETWORKS
from latent_domains.experiment.recipe import Recipe
from latent_domains.runs.devices import requested_mode

_FINE_TUNED = [name for name, network in NETWORKS.items() if network.recipe and name not in (*BACKBONES, ANY_FEATURES)]

CHOICES = (*BACKBONES, *_FINE_TUNED)
"""The networks that can be trained: on a backbone's features, or fine-tuned."""

STYLE = "style_w"
"""The method for a backbone, on its features or fine-tuned. Clusters of style are nearer to PACS's true source domains
(NMI 0.90) than what mDA's branch finds there (0.70). No accuracy on a target was used for the choice
(results/pacs_domains)."""

OF_MDA = ("branch_norm", "branch_input", "no_w_gradient", "known_share", "style_share", "permuted_w", "lambda_b")
OF_MDA += ("domain_gain", "lambda_d", "lambda_t")
"""Options that ask for mDA's branch."""

ON_FEATURES = {"branch_norm": "logits", "branch_input": "early", "no_w_gradient": True, "lambda_d": 0.1}
"""mDA's options on a backbone's features. Of its branches this one found the true source domains of PACS best
(results/archive/pacs_features). No accuracy on a target was used for the choice."""

FINE_TUNED = {"branch_norm": "logits"}
"""mDA's options for a fine-tuned net. They found the domains of mixtures of digits best (results/branch.md)."""

IMAGE_SIZE, ITERATIONS = 192, 500
"""Defaults for a backbone that is fine-tuned: two cores need a quarter of an hour."""

SHARED = ("method", "k", "k_target", "domains", "known_share", "style_share", "equal_classes", "seed")
"""Options of the method that a fine-tuned backbone shares with the features alone, which are trained first."""

FEWEST_ROWS = 8
"""The fewest images of each domain in a batch, for its statistics. A smaller domain repeats its images."""

DEFAULT_K = 2
"""Latent domains of a single source, which counts as an undivided mixture."""


@dataclass(frozen=True)
class Learner:
    """A network to be fine-tuned or, for a backbone without ``fine_tune``, a classifier on its features.

    ``image_size`` is the side of the squares that it sees (None: the network's usual one).
    """

    network: str
    fine_tune: bool = False
    image_size: int | None = None

    @property
    def on_features(self) -> bool:
        """Say whether a classifier on features is trained."""
        return self.network in BACKBONES and not self.fine_tune

    @property
    def features_alone(self) -> "Learner | None":
        """The classifier on features that is trained first, if a backbone is fine-tuned; else None."""
        return Learner(self.network) if self.network in BACKBONES and self.fine_tune else None

    @property
    def recipe(self) -> Recipe:
        """The recipe of its training."""
        return DATASETS[NETWORKS[ANY_FEATURES if self.on_features else self.network].recipe].recipe

    @property
    def pictures(self) -> Dataset:
        """A dataset with pictures of its input's size."""
        if self.on_features:
            return DATASETS[of_network(ANY_FEATURES).images]
        return adapted(of_network(self.network), self.network, self.image_size)


def choose_learner(network: str | None, fine_tune: bool, image_size: int | None, solver_mode: str | None) -> Learner:
    """Choose the learner; only a backbone can be trained without being fine-tuned.

    Refuses an image size that a backbone's features cannot have.
    """
    network = network or default_network(solver_mode)
    if network in BACKBONES and fine_tune:
        return Learner(network, True, image_size or IMAGE_SIZE)
    if network in BACKBONES and image_size is not None:
        raise ProgramError(
            f"--image-size {image_size}: features of {network} are of {of_network(network).shape[-1]}×"
            f"{of_network(network).shape[-1]} pixels, expected --fine-tune with it, or a --network that is fine-tuned"
        )
    return Learner(network, image_size=image_size)


def default_network(solver_mode: str | None) -> str:
    """Return resnet18 with a GPU, else lite0: without one ResNet18 takes hours, features a minute."""
    return "lite0" if requested_mode(solver_mode) == "CPU" or why_no_gpu() else "resnet18"


def with_defaults(learner: Learner, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Replace each option of the method that was not ``chosen`` (None) by the learner's default.

    Several targets are one domain by default: the model then needs no branch. With latent ones it has their branch,
    which cannot read statistics of early blocks, since no stock layer makes these.
    """
    chosen = {**chosen, "method": chosen["method"] or _usual_method(learner, chosen)}
    defaults: dict[str, Any] = {"iterations": ITERATIONS} if learner.features_alone else {}
    if chosen["method"] in (*LATENT, "multi_source"):
        defaults["k_target"] = 1
    if chosen["method"] == "mda":
        defaults |= ON_FEATURES if learner.on_features else FINE_TUNED
        if (chosen.get("k_target") or 1) > 1:
            defaults["branch_input"] = "final"
    return {name: defaults.get(name) if value is None else value for name, value in chosen.items()}


def _usual_method(learner: Learner, chosen: Mapping[str, Any]) -> str:
    """Return the default method of a learner.

    A file of domains that knows all of them is used as it is; else mDA's branch predicts the others. A backbone uses
    clusters of style, or DIAL for a single one; other nets use mDA, and so does a backbone with mDA's options.
    """
    asked = any(chosen.get(name) not in (None, SETTINGS[name].default) for name in OF_MDA)
    if (file := chosen.get("domains")) and not asked:
        return "multi_source" if read_domains_file(file).all_known else "mda"
    if asked or learner.network not in BACKBONES:
        return "mda"
    return "dial" if chosen.get("k") == 1 else STYLE


def for_features(learner: Learner, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options for training on features alone: SHARED of those ``chosen``, else defaults."""
    return with_defaults(learner, {name: value if name in SHARED else None for name, value in chosen.items()})


@dataclass(frozen=True)
class Adaptation:
    """``images`` for a learner, the ``chosen`` options of the method, and the ``command`` that requests it.

    ``reading`` is how pictures are read, ``counted`` says that k was counted, ``weights`` are those that training
    begins from (:func:`latent_domains.adapt.training.starting_weights`). The other fields say how it runs: processes at
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
        """A dataset with pictures of the learner's input, read as this adaptation reads them."""
        return replace(self.learner.pictures, reading=self.reading)

    @property
    def in_order(self) -> list["Adaptation"]:
        """The adaptation on features alone, if there is one to compare with, then the adaptation itself."""
        if not (alone := self.learner.features_alone):
            return [self]
        chosen = for_features(alone, self.chosen)
        return [replace(self, paths=self.paths.features, learner=alone, chosen=chosen, weights=None), self]


class Notes:
    """Notes for the user, each printed once for all trainings."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def say(self, notes: Iterable[str]) -> None:
        """Print those that were not printed before."""
        for note in notes:
            if note not in self._said:
                print(f"note: {note}", flush=True)
                self._said.add(note)


def experiment_of(adaptation: Adaptation, counts: Mapping[str, int]) -> Experiment:
    """Make the experiment on ``counts`` images of each domain.

    A batch has the size of the learner's recipe, or is smaller if domains are small. A training has at least four tests
    and four snapshots. There are fewer tests if the target is large: between two tests, training reads at least as many
    images as a test.
    """
    images, chosen, recipe = adaptation.images, adaptation.chosen, adaptation.learner.recipe
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
        solver_mode="CPU" if adaptation.learner.on_features else "GPU",
    )
    data = describe_pictures(adaptation.paths.name, images, adaptation.pictures, counts, recipe, adaptation.command)
    if adaptation.learner.on_features:
        data = replace(on_lite0(data, recipe, adaptation.command), usage_images=data.usage_images)
    k = chosen["k"]
    if chosen["method"] in LATENT and k is None and len(images.sources) == 1 and not chosen.get("domains"):
        k = DEFAULT_K
    size = chosen.get("batch_size")
    if split and not size:
        size = _batch_size(split, rows, len(sources), len(seen))
    experiment = make_experiment(data, **{**chosen, "k": k, "batch_size": size})
    if adaptation.counted:
        experiment = replace(experiment, method=replace(experiment.method, counted=True))
    if data.features and experiment.method.has_target_branch and experiment.method.branch_input == "early":
        raise ProgramError(
            f"branch_input: got 'early' with k_target {experiment.k_target}, expected final: the model tells latent "
            "targets apart, and no stock layer makes statistics of early blocks"
        )
    batch_sizes(experiment, counts)  # of a batch that is too small
    return experiment


def _rows(recipe: Recipe, sources: int, domains: int) -> int:
    """Return the mean number of images of each of ``domains`` domains in a batch; ``sources`` of them are sources."""
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
    """Yield a note if a small domain makes batches smaller than the network's recipe, unless the size was chosen."""
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
    """Yield notes about images and the experiment on them, one per line."""
    yield from images.notes
    yield from notes_on_classes(images, equal=experiment.recipe.equal_classes)
    yield from batch_notes(images, experiment)
