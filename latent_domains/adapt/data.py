"""The LMDBs of a task: its pictures, their features, and the statistics of style that its domains are found by."""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from latent_domains.adapt.task import Task, with_defaults
from latent_domains.backbones import extraction
from latent_domains.common.artefact import make_missing
from latent_domains.common.program import ProgramError
from latent_domains.convert.torch.backbone import feature_backbone, get_weights, style_backbone
from latent_domains.data.domain_images import TaskImages, keep_readable
from latent_domains.data.lmdb_folder import is_lmdb, read_note
from latent_domains.data.lmdb_io import count, read, record_names
from latent_domains.data.lmdb_plans import PlannedLmdb
from latent_domains.discovery.discover import discover
from latent_domains.discovery.page import write_page
from latent_domains.domains.statistics import plan_statistics, read_statistics
from latent_domains.experiment.experiment import Experiment
from latent_domains.experiment.networks import NETWORKS
from latent_domains.networks.lite0 import LITE0
from latent_domains.runs.run_folder import RunFolder


def build_lmdbs(task: Task) -> dict[str, int]:
    """Build what is missing and return the images of each domain.

    Raises ProgramError naming an image that cannot be read (unless it may be skipped), an LMDB that was made from
    other images (unless nothing was trained yet), or if the disk is full.
    """
    remedy = "replace or remove it, or pass --skip-unreadable to go on without such images"
    how = {"program": "tools.adapt", "jobs": task.jobs, "remedy": remedy, "skip_unreadable": task.skip_unreadable}
    parts = extraction.plan_pictures(task.paths.lmdbs, task.images, task.pictures, **how)
    make_missing(parts.values(), force=not task.paths.is_begun)
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


def read_stored(task: Task) -> TaskImages:
    """Return the images that are in the LMDBs. Raises ProgramError if they are too few."""
    names = {domain.name: set(record_names(task.paths.lmdbs / domain.name)) for domain in task.images.domains}
    return keep_readable(task.images, names, allow_missing_classes=task.allow_missing_classes)


def plan_style(task: Task) -> list[PlannedLmdb]:
    """Plan the sources' statistics of style, which are those of tools.discover."""
    how = {"reading": task.reading, "jobs": task.jobs, "skip_unreadable": task.skip_unreadable}
    return plan_statistics(task.images, style_backbone(), task.paths.style, **how)


def _is_of_lmdb(style: Path) -> bool:
    """Say whether statistics were made of an LMDB of pictures, as before discovery and training shared them."""
    return is_lmdb(style) and read_note(style).recipe.get("program", "").startswith("tools.extract_features")


def extract_features(task: Task, experiment: Experiment) -> None:
    """Extract from the pictures in the LMDBs what an experiment reads and is missing: features, statistics of style.

    Raises ProgramError if those of other pictures or of other weights are in their place (unless nothing was trained
    yet).
    """
    paths, features, parts, begun = task.paths, experiment.data, [], task.paths.is_begun
    if features.features:
        of, network = replace(task.pictures, name=paths.name), NETWORKS[task.learner.network]
        extractor = extraction.onnx_extractor(feature_backbone(network, *get_weights(network)), network.name, task.jobs)
        parts += extraction.plan_features(of, features, features.domains, extractor, paths.data, paths.data)
    if experiment.method.reads_style:
        parts += [part for part in plan_style(task) if not (begun and _is_of_lmdb(part.path))]
    make_missing(parts, force=not begun)


def with_counted_domains(task: Task) -> Task:
    """Return the task with as many domains as are counted in its sources; of a single one the method is DIAL.

    A training that goes on has those that it began with, a fine-tuned backbone those of its features alone. Prints what
    was found, and writes the page that shows it.
    """
    if not task.counts_domains:
        return task
    if task.paths.is_begun or task.learner.features_alone:
        counted = task.paths if task.paths.is_begun else task.paths.features
        method = RunFolder.load(counted.run).experiment.method
        if method.name == "style_w" and not method.counted:
            return task  # begun when the number of sources was the usual one
        k = method.source_domains(1)
    else:
        k = _count_domains(task)
    if k == 1:
        print("note: the sources are one domain, so the method is DIAL (--k asks for several)", flush=True)
        latent_targets = (task.chosen["k_target"] or 1) > 1  # which have a branch of their own
        single = {"method": "mda", "k": 1} if latent_targets else {"method": "dial", "k": None, "k_target": None}
        return replace(task, chosen=with_defaults(task.learner, {**task.chosen, **single}))
    return replace(task, chosen={**task.chosen, "k": k}, counted=True)


def _count_domains(task: Task) -> int:
    """Count the domains of the sources as tools.discover does."""
    parts, sources = plan_style(task), replace(task.images, targets=())
    make_missing(parts, force=True)
    statistics = read_statistics(sources, [part.path for part in parts])
    found = discover(sources, task.reading, statistics, None, task.chosen["seed"])
    print(*found.summary(), *(f"note: {note}" for note in found.notes), sep="\n", flush=True)
    backbone = f"{LITE0.title}, {', '.join(LITE0.backbone.middle)}"
    write_page(found, task.paths.found, backbone=backbone, command=task.command)
    return found.found.k
