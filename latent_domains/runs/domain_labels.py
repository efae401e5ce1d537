"""The domain labels of a run's source images, and which images are read: written with its folder.

The labels are read again for its record.
"""

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
from latent_domains.experiment.experiment import CONTROLS, Experiment
from latent_domains.runs.equal_classes import write_records
from latent_domains.runs.run_folder import RunFolder
from latent_domains.runs.style import style_domains


def write_labels(folder: RunFolder) -> None:
    """Write the LMDBs of domain labels, in the order of their images, and which records are read.

    Only what the training net reads.
    """
    experiment = folder.experiment
    lmdbs = [folder.train_lmdbs[part] for part in experiment.source_inputs]
    found = style_domains(experiment, lmdbs, folder.data_folder) if experiment.reads_style else None
    labels = _labels(folder, lmdbs, found) if folder.domain_labels else []
    for (part, lmdb), of_part in zip(folder.domain_labels.items(), labels, strict=True):
        write_domain_labels(lmdb, of_part.tolist(), folder.train_lmdbs[part])
    if found is not None:
        write_records(folder, _divided(found.domains, lmdbs))
    else:
        write_records(folder, labels if labels and experiment.method in ("kmeans_w", "multi_source") else None)


def _labels(folder: RunFolder, lmdbs: list[Path], found: Division | None) -> list[NDArray[np.int64]]:
    """A latent domain, or -1 for unknown, for each image of each part of the sources; ``found`` are those by style."""
    experiment = folder.experiment
    if found is not None:
        return _divided(found.domains if experiment.method == "style_w" else _surest(found, experiment), lmdbs)
    if experiment.method == "kmeans_w":
        data = experiment.data
        return kmeans_domains(lmdbs, data.stored_shape, experiment.k, experiment.seed, data.early)
    made_by = None if experiment.undivided else experiment.data.made_by
    counts = [count_filled(lmdb, made_by) for lmdb in lmdbs]
    if experiment.method in ("random_w", "ghost_w"):
        return random_domains(counts, experiment.k, experiment.seed)
    if experiment.method == "multi_source":
        names = read_known_domains(lmdbs[0], "multi_source needs it")
        if (true := _as_sources(names, experiment)) is None:
            there, sources = ", ".join(sorted(set(names))), ", ".join(experiment.sources)
            raise ProgramError(f"{lmdbs[0] / DOMAINS}: domains {there}, expected those of the sources {sources}")
        return [true]
    masks = choose_known(counts, experiment.known_share, experiment.seed)
    return [np.where(known, domain, UNKNOWN) for domain, known in enumerate(masks)]


def _surest(found: Division, experiment: Experiment) -> NDArray[np.int64]:
    """The cluster of the surest share of each cluster's images; the others are UNKNOWN."""
    labels = np.full(len(found.domains), UNKNOWN)
    order = np.argsort(-found.margin, kind="stable")
    for domain in range(found.k):
        members = order[found.domains[order] == domain]
        labels[members[: known_of(len(members), experiment.style_share)]] = domain
    return labels


def _divided(labels: NDArray[np.int64], lmdbs: list[Path]) -> list[NDArray[np.int64]]:
    """The labels of all images, by LMDB."""
    return np.split(labels, np.cumsum([count_filled(lmdb) for lmdb in lmdbs])[:-1])


def assigned_domains(folder: RunFolder) -> dict[str, NDArray[np.float32]]:
    """w (one-hot, n×k) of a control's training images by their true source; empty for other methods.

    An undivided mixture of unknown domains has one entry.
    """
    experiment = folder.experiment
    if experiment.method not in CONTROLS:
        return {}
    eye = np.eye(experiment.k, dtype=np.float32)
    rows = {part: eye[read_labels(lmdb)] for part, lmdb in folder.domain_labels.items()}
    if experiment.undivided and (true := _true_domains(folder)) is not None:
        (mixture,) = rows.values()
        return {source: mixture[true == number] for number, source in enumerate(experiment.sources)}
    return rows


def _true_domains(folder: RunFolder) -> NDArray[np.int64] | None:
    """The source of each record of the undivided mixture, by its number; None if it is not known."""
    (mixture,) = folder.experiment.source_inputs
    names = read_domains(folder.train_lmdbs[mixture])
    return None if names is None else _as_sources(names, folder.experiment)


def _as_sources(names: list[str], experiment: Experiment) -> NDArray[np.int64] | None:
    """The numbers of the sources by the names of their LMDBs; None if these are not all, or others."""
    numbers = {Path(experiment.data.train_lmdb(name)).name: number for number, name in enumerate(experiment.sources)}
    return np.array([numbers[name] for name in names], np.int64) if set(names) == set(numbers) else None
