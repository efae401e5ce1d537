"""A dataset of features that others computed, in a folder of its own: LMDBs and description."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from latent_domains.common.artefact import make_missing
from latent_domains.common.files import json_text, read_json, write_text
from latent_domains.common.program import ProgramError
from latent_domains.data.feature_files import LabelledFeatures, normalise_features
from latent_domains.data.lmdb_plans import FINGERPRINT, PlannedLmdb, plan_of_arrays
from latent_domains.experiment.datasets import DATASETS, Dataset, Features, from_json, of_network
from latent_domains.experiment.networks import ANY_FEATURES

PROGRAM = "tools.import_features"

VERSION = 1
"""Increased whenever the same files give other records or another order."""


def build(
    out: Path,
    domains: Mapping[str, LabelledFeatures],
    classes: int,
    names: tuple[str, ...],
    how: str,
    made_by: str,
    *,
    force: bool,
) -> Path:
    """Build the missing files of a dataset in the folder ``out`` and return its description.

    The last domain is the target. The labels of ``domains`` begin at 0; ``how`` is one of NORMALISATIONS; ``names`` are
    the classes. Refuses the name of one of our datasets as the folder's name, and other files at its place, unless
    ``force``.
    """
    data = _dataset(out.name, domains, classes, made_by)
    description = out / "dataset.json"
    if not force and description.exists() and from_json(read_json(description)) != data:
        raise ProgramError(f"{description}: describes another dataset; pass --force to replace it, or another --out")
    make_missing(_parts(out, domains, names, how), force=force)
    write_text(description, json_text(data.to_json()))
    return description


def _dataset(name: str, domains: Mapping[str, LabelledFeatures], classes: int, made_by: str) -> Dataset:
    if name in DATASETS:
        raise ProgramError(f"--out: {name!r} is a dataset of ours, expected another name")
    *sources, target = domains
    data = replace(
        of_network(ANY_FEATURES),
        name=name,
        domains=(*sources, target),
        sources=tuple(sources),
        targets=(target,),
        classes=classes,
        stored_shape=(domains[target].features.shape[1], 1, 1),
        counts={domain: len(rows.labels) for domain, rows in domains.items()},
        features=Features(None, name),
        made_by=made_by,
    )
    return from_json(data.to_json())


def _parts(out: Path, domains: Mapping[str, LabelledFeatures], names: tuple[str, ...], how: str) -> list[PlannedLmdb]:
    """Plan an LMDB for each domain; with z each of them depends on all files."""
    digests = {
        domain: hashlib.sha256(rows.features.tobytes() + rows.labels.tobytes()).hexdigest()
        for domain, rows in domains.items()
    }
    if how.endswith("z"):
        digests = dict.fromkeys(domains, hashlib.sha256("".join(digests.values()).encode()).hexdigest())
    return [
        plan_of_arrays(
            out / domain,
            {
                "program": PROGRAM,
                "part": domain,
                "version": VERSION,
                "backbone": out.name,
                "normalise": how,
                "images": len(rows.labels),
                FINGERPRINT: digests[domain][:16],
            },
            lambda rows=rows: (rows.features, rows.labels),
            (0, number),
            names,
        )
        for number, (domain, rows) in enumerate(normalise_features(domains, how).items())
    ]
