"""The LMDBs of an adaptation: its pictures, their features, and the statistics of style that find its domains."""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from latent_domains.adapt.adaptation import Adaptation, with_defaults
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


def build_lmdbs(adaptation: Adaptation) -> dict[str, int]:
    """Build missing LMDBs and return the number of images of each domain.

    Refuses unreadable images, unless they may be skipped, and LMDBs of other images after a training has begun.
    """
    remedy = "replace or remove it, or pass --skip-unreadable to go on without such images"
    how = {"jobs": adaptation.jobs, "remedy": remedy, "skip_unreadable": adaptation.skip_unreadable}
    where, images, of = adaptation.paths.lmdbs, adaptation.images, adaptation.pictures
    parts = extraction.plan_pictures(where, images, of, program="tools.adapt", **how)
    make_missing(parts.values(), force=not adaptation.paths.is_begun)
    return {name: count(part.path) for name, part in parts.items()}


def check_different(adaptation: Adaptation, domains: Collection[str]) -> None:
    """Check that each of the domains that are normalised has stored images that differ.

    The variance of equal images is 0, so rounding errors would decide.
    """
    for domain in adaptation.images.domains:
        if domain.name not in domains:
            continue
        path = adaptation.paths.lmdbs / domain.name
        stored = (datum.data for _, datum in read(path))
        first = next(stored)
        if all(data == first for data in stored):
            raise ProgramError(f"{domain.folder}: all {count(path)} images are the same, expected some that differ")


def read_stored(adaptation: Adaptation) -> TaskImages:
    """Return the images that are in the LMDBs. Refuses too few."""
    lmdbs, images = adaptation.paths.lmdbs, adaptation.images
    names = {domain.name: set(record_names(lmdbs / domain.name)) for domain in images.domains}
    return keep_readable(images, names, allow_missing_classes=adaptation.allow_missing_classes)


def plan_style(adaptation: Adaptation) -> list[PlannedLmdb]:
    """Plan the sources' statistics of style, which are those of tools.discover."""
    how = {"reading": adaptation.reading, "jobs": adaptation.jobs, "skip_unreadable": adaptation.skip_unreadable}
    return plan_statistics(adaptation.images, style_backbone(), adaptation.paths.style, **how)


def _is_of_lmdb(style: Path) -> bool:
    """Say whether statistics were made from an LMDB of pictures, as before discovery and training shared them."""
    return is_lmdb(style) and read_note(style).recipe.get("program", "").startswith("tools.extract_features")


def extract_features(adaptation: Adaptation, experiment: Experiment) -> None:
    """Extract what an experiment reads and is missing, from the pictures in the LMDBs: features, statistics of style.

    Refuses those of other pictures or of other weights after a training has begun.
    """
    paths, features, parts, begun = adaptation.paths, experiment.data, [], adaptation.paths.is_begun
    if features.features:
        of, network = replace(adaptation.pictures, name=paths.name), NETWORKS[adaptation.learner.network]
        backbone = feature_backbone(network, *get_weights(network))
        extractor = extraction.onnx_extractor(backbone, network.name, adaptation.jobs)
        parts += extraction.plan_features(of, features, features.domains, extractor, paths.data, paths.data)
    if experiment.method.reads_style:
        parts += [part for part in plan_style(adaptation) if not (begun and _is_of_lmdb(part.path))]
    make_missing(parts, force=not begun)


def with_counted_domains(adaptation: Adaptation) -> Adaptation:
    """Return the adaptation with the number of domains counted in its sources; of a single one the method is DIAL.

    A training that continues has the number it began with, a fine-tuned backbone that of its features alone. Prints
    what was found, and writes the page that shows it.
    """
    if not adaptation.counts_domains:
        return adaptation
    if adaptation.paths.is_begun or adaptation.learner.features_alone:
        counted = adaptation.paths if adaptation.paths.is_begun else adaptation.paths.features
        method = RunFolder.load(counted.run).experiment.method
        if method.name == "style_w" and not method.counted:
            return adaptation  # begun when the number of sources was the usual one
        k = method.source_domains(1)
    else:
        k = _count_domains(adaptation)
    if k == 1:
        print("note: the sources are one domain, so the method is DIAL (--k asks for several)", flush=True)
        latent_targets = (adaptation.chosen["k_target"] or 1) > 1  # which have a branch of their own
        single = {"method": "mda", "k": 1} if latent_targets else {"method": "dial", "k": None, "k_target": None}
        return replace(adaptation, chosen=with_defaults(adaptation.learner, {**adaptation.chosen, **single}))
    return replace(adaptation, chosen={**adaptation.chosen, "k": k}, counted=True)


def _count_domains(adaptation: Adaptation) -> int:
    """Count the domains of the sources as tools.discover does."""
    parts, sources = plan_style(adaptation), replace(adaptation.images, targets=())
    make_missing(parts, force=True)
    statistics = read_statistics(sources, [part.path for part in parts])
    found = discover(sources, adaptation.reading, statistics, None, adaptation.chosen["seed"])
    print(*found.summary(), *(f"note: {note}" for note in found.notes), sep="\n", flush=True)
    backbone = f"{LITE0.title}, {', '.join(LITE0.backbone.middle)}"
    write_page(found, adaptation.paths.found, backbone=backbone, command=adaptation.command)
    return found.found.k
