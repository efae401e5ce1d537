"""A task, its folder, and the LMDBs in it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from latent_domains.adapt.learner import Learner, for_features
from latent_domains.backbones import extraction
from latent_domains.backbones.pictures import plan_pictures
from latent_domains.common.program import ProgramError
from latent_domains.convert.torch.backbone import feature_backbone, get_weights, style_backbone
from latent_domains.data.domain_images import TaskImages, keep_readable
from latent_domains.data.lmdb_folder import is_lmdb
from latent_domains.data.lmdb_io import count, read, record_names
from latent_domains.data.lmdb_note import read_note
from latent_domains.data.lmdb_plans import PlannedLmdb, build_missing
from latent_domains.data.names import folder_label
from latent_domains.data.preprocessing import USUAL, Reading
from latent_domains.domains.statistics import plan_statistics
from latent_domains.experiment.datasets import STYLE, Dataset
from latent_domains.experiment.experiment import Experiment
from latent_domains.experiment.networks import NETWORKS
from latent_domains.models.classifier import description_file
from latent_domains.models.model import model_files


class Paths:
    """The files and folders of a task's folder."""

    def __init__(self, root: Path, name: str | None = None) -> None:
        self.root = root
        self.name = name or folder_label(root)
        """The task's name, by default that of the folder."""
        self.settings = root / "settings.json"
        """What was asked for; it makes a folder one of these."""
        self.data = root / "data"
        """The data folder, as every program takes one."""
        self.lmdbs = self.data / self.name
        """An LMDB for each domain, in the data folder under the task's name."""
        self.dataset = self.lmdbs / "dataset.json"
        """The dataset's description, for other experiments on the same LMDBs."""
        self.run = root / "run"
        """The run folder: nets, solver, log, snapshots, record."""
        self.weights = root / "weights"
        """The folder of converted weights, each in one that its hash names."""
        self.model = root / "model"
        """What the names of the folded model's files begin with."""
        self.onnx = root / "model.onnx"
        self.domain_model = root / "model.domains.npz"
        """Which domain a new picture is of, where the sources' domains are clusters of style or those of a file."""
        self.model_files = (*model_files(self.model), description_file(self.model), self.onnx)
        """The folded model's net, weights and description, and all but the last as ONNX."""
        self.baselines = root / "baselines"
        """The folder of what shallow methods get on the same features, a record each."""
        self.held_out = root / "held_out"
        """A run for each source that plays the target."""
        self.choice = root / "choice.json"
        """Which classifier of features was chosen, and why."""
        self.chosen = root / "chosen.caffemodel"
        """The run's deploy net with that classifier."""
        self.predictions = root / "predictions.csv"
        self.domains = root / "domains.csv"
        self.report = root / "report.html"
        self.style = self.data / f"{self.name}_{STYLE}"
        """The folder of the sources' statistics of style."""
        self.found = root / "discovery.html"
        """What was found of the sources' domains, if they were counted."""
        self.readme = root / "README.txt"
        self.results = (self.readme, self.report, self.domains, self.predictions, *self.model_files, self.baselines)
        self.results += (self.found, self.domain_model, self.choice, self.chosen, self.held_out)
        """What is made of a finished training."""

    @property
    def features(self) -> "Paths":
        """The folder of the classifier on features alone, if a backbone is fine-tuned."""
        return Paths(self.root / "features", self.name)


@dataclass(frozen=True)
class Task:
    """``images`` for a learner, the options of the method that are ``chosen``, the ``command`` that asks for it.

    ``reading`` says how pictures are read, ``counted`` that k is what was counted.
    """

    paths: Paths
    images: TaskImages
    learner: Learner
    chosen: Mapping[str, Any]
    command: str
    reading: Reading = USUAL
    counted: bool = False

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
        return [replace(self, paths=self.paths.features, learner=alone, chosen=for_features(alone, self.chosen)), self]


def build_lmdbs(task: Task, *, jobs: int, skip_unreadable: bool, replace_others: bool) -> dict[str, int]:
    """Build what is missing and return the images of each domain.

    Raises ProgramError naming an image that cannot be read (unless it may be skipped), an LMDB that was made from
    other images (unless ``replace_others``), or if the disk is full.
    """
    remedy = "replace or remove it, or pass --skip-unreadable to go on without such images"
    how = {"program": "tools.adapt", "jobs": jobs, "remedy": remedy, "skip_unreadable": skip_unreadable}
    parts = plan_pictures(task.paths.lmdbs, task.images, task.pictures, **how)
    build_missing(list(parts.values()), force=replace_others)
    return {name: count(part.path) for name, part in parts.items()}


def check_different(task: Task, domains: Collection[str]) -> None:
    """Check that each of the domains that are normalised has stored images that differ.

    Raises ProgramError naming its folder: the variance of equal images is 0, so rounding would decide.
    """
    for domain in task.images.domains:
        if domain.name not in domains:
            continue
        path = task.paths.lmdbs / domain.name
        stored = (datum.data for _, datum in read(path))
        first = next(stored)
        if all(data == first for data in stored):
            raise ProgramError(f"{domain.folder}: all {count(path)} images are the same, expected some that differ")


def read_stored(task: Task, *, allow_missing_classes: bool) -> TaskImages:
    """Return the images that are in the LMDBs. Raises ProgramError if they are too few."""
    names = {domain.name: set(record_names(task.paths.lmdbs / domain.name)) for domain in task.images.domains}
    return keep_readable(task.images, names, allow_missing_classes=allow_missing_classes)


def plan_style(task: Task, folder: Path, *, jobs: int, skip_unreadable: bool) -> list[PlannedLmdb]:
    """Plan the sources' statistics of style, which are those of tools.discover, as LMDBs in a folder."""
    how = {"reading": task.reading, "jobs": jobs, "skip_unreadable": skip_unreadable}
    return plan_statistics(task.images, style_backbone(), folder, **how)


def _is_of_lmdb(style: Path) -> bool:
    """Whether statistics were made of an LMDB of pictures, as before discovery and training shared them."""
    return is_lmdb(style) and read_note(style).recipe.get("program", "").startswith("tools.extract_features")


def extract_features(
    task: Task, experiment: Experiment, *, jobs: int, skip_unreadable: bool, replace_others: bool
) -> None:
    """Extract from the pictures in the LMDBs what an experiment reads and is missing: features, statistics of style.

    Raises ProgramError if those of other pictures or of other weights are in their place (unless ``replace_others``).
    """
    paths, features, parts = task.paths, experiment.data, []
    if features.features:
        of, network = replace(task.pictures, name=paths.name), NETWORKS[task.learner.network]
        extractor = extraction.onnx_extractor(feature_backbone(network, *get_weights(network)), network.name, jobs)
        parts += extraction.plan_features(of, features, features.domains, extractor, paths.data, paths.data)
    if experiment.method.reads_style:
        style = plan_style(task, paths.style, jobs=jobs, skip_unreadable=skip_unreadable)
        parts += style if replace_others else [part for part in style if not _is_of_lmdb(part.path)]
    build_missing(parts, force=replace_others)
