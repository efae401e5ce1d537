"""Writes a run's domain labels, and the numbers of the records that it reads, into its folder.

The run's record reads the labels again.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from latent_domains.common.program import ProgramError
from latent_domains.data.control_domains import kmeans_domains, random_domains
from latent_domains.data.domain_labels import UNKNOWN, choose_known, known_of, write_domain_labels
from latent_domains.data.join import read_domains, read_known_domains
from latent_domains.data.lmdb_folder import DOMAINS
from latent_domains.data.lmdb_io import count_filled, read_labels
from latent_domains.data.style_domains import Division
from latent_domains.experiment.experiment import Experiment
from latent_domains.experiment.methods import Control, Labels, SourceImages
from latent_domains.experiment.mixture import made_by
from latent_domains.runs.equal_classes import write_records
from latent_domains.runs.run_folder import RunFolder
from latent_domains.runs.style import style_domains


def write_labels(folder: RunFolder) -> None:
    """Write what the training net reads of these: LMDBs of domain labels, in the images' order; numbers of records."""
    if not (folder.domain_labels or folder.records):
        return
    images, method = RunImages(folder, _counts(folder)), folder.experiment.method
    labels = method.domain_labels(images) if folder.domain_labels else []
    for (part, lmdb), of_part in zip(folder.domain_labels.items(), labels, strict=True):
        write_domain_labels(lmdb, of_part.tolist(), folder.train_lmdbs[part])
    write_records(folder, method.found_domains(images, labels) if folder.records else None)


def _counts(folder: RunFolder) -> list[int]:
    """The numbers of images in the sources' LMDBs. Raises ProgramError naming what builds one that is not there."""
    experiment, data = folder.experiment, folder.data_folder
    parts = experiment.task.source_inputs
    return [count_filled(folder.train_lmdbs[part], made_by(experiment, data, part)) for part in parts]


@dataclass(frozen=True)
class RunImages(SourceImages):
    """The source images of a run."""

    folder: RunFolder
    counts: list[int]
    """By LMDB."""

    @property
    def _lmdbs(self) -> list[Path]:
        return [self.folder.train_lmdbs[part] for part in self.folder.experiment.task.source_inputs]

    @property
    def _seed(self) -> int:
        return self.folder.experiment.seed

    @cached_property
    def _style(self) -> Division:
        """The clusters of style, which are asked for twice where classes are drawn equally."""
        return style_domains(self.folder.experiment, self._lmdbs, self.folder.data_folder)

    def at_random(self) -> Labels:
        return random_domains(self.counts, self.folder.experiment.k, self._seed)

    def by_pixels(self) -> Labels:
        experiment, data = self.folder.experiment, self.folder.experiment.data
        return kmeans_domains(self._lmdbs, data.stored_shape, experiment.k, self._seed, data.early)

    def by_style(self) -> Labels:
        return self._divided(self._style.domains)

    def surest_by_style(self, share: float) -> Labels:
        found = self._style
        labels = np.full(len(found.domains), UNKNOWN)
        order = np.argsort(-found.margin, kind="stable")
        for domain in range(found.k):
            members = order[found.domains[order] == domain]
            labels[members[: known_of(len(members), share)]] = domain
        return self._divided(labels)

    def known(self, share: float) -> Labels:
        masks = choose_known(self.counts, share, self._seed)
        return [np.where(known, domain, UNKNOWN) for domain, known in enumerate(masks)]

    def all_known(self) -> Labels:
        (lmdb,), experiment = self._lmdbs, self.folder.experiment
        names = read_known_domains(lmdb, "multi_source needs it")
        if (true := _as_sources(names, experiment)) is None:
            there, sources = ", ".join(sorted(set(names))), ", ".join(experiment.sources)
            raise ProgramError(f"{lmdb / DOMAINS}: domains {there}, expected those of the sources {sources}")
        return [true]

    def _divided(self, labels: NDArray[np.int64]) -> Labels:
        """The labels of all images, by LMDB."""
        return np.split(labels, np.cumsum(self.counts)[:-1])


def assigned_domains(folder: RunFolder) -> dict[str, NDArray[np.float32]]:
    """w (one-hot, n×k) of a control's training images by their true source; empty for other methods.

    An undivided mixture of unknown domains has one entry.
    """
    experiment = folder.experiment
    if not isinstance(experiment.method, Control):
        return {}
    eye = np.eye(experiment.k, dtype=np.float32)
    rows = {part: eye[read_labels(lmdb)] for part, lmdb in folder.domain_labels.items()}
    if experiment.task.undivided and (true := _true_domains(folder)) is not None:
        (mixture,) = rows.values()
        return {source: mixture[true == number] for number, source in enumerate(experiment.sources)}
    return rows


def _true_domains(folder: RunFolder) -> NDArray[np.int64] | None:
    """The source of each record of the undivided mixture, by its number; None if it is not known."""
    (mixture,) = folder.experiment.task.source_inputs
    names = read_domains(folder.train_lmdbs[mixture])
    return None if names is None else _as_sources(names, folder.experiment)


def _as_sources(names: list[str], experiment: Experiment) -> NDArray[np.int64] | None:
    """Each record's source as a number, from the name of its LMDB; None unless the names are just the sources'."""
    numbers = {Path(experiment.data.train_lmdb(name)).name: number for number, name in enumerate(experiment.sources)}
    return np.array([numbers[name] for name in names], np.int64) if set(names) == set(numbers) else None
