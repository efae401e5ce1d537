"""Pictures in folders as a dataset: its description, and an LMDB of each domain."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from latent_domains.data.domain_images import TaskImages
from latent_domains.data.image_datum import Format
from latent_domains.data.image_lmdb import plan_of_images
from latent_domains.data.lmdb_plans import PlannedLmdb
from latent_domains.experiment.datasets import Dataset
from latent_domains.experiment.recipe import Recipe

USAGE = 10_000
"""Images of each domain on which a record judges the latent domains."""


def describe_pictures(
    name: str, images: TaskImages, like: Dataset, counts: Mapping[str, int], recipe: Recipe, made_by: str
) -> Dataset:
    """Describe pictures as a dataset, with size, network and input of the pictures of ``like``."""
    sources, targets = (tuple(each.name for each in group) for group in (images.sources, images.targets))
    return replace(
        like,
        name=name,
        folder=None,
        domains=(*sources, *targets),
        sources=sources,
        targets=targets,
        unlabelled=tuple(target.name for target in images.targets if not target.labelled),
        classes=len(images.classes),
        counts=dict(counts),
        test_split=False,
        test_counts=None,
        usage_images=min(USAGE, max(counts.values())),
        made_by=made_by,
        recipe=recipe,
    )


def plan_pictures(lmdbs: Path, images: TaskImages, like: Dataset, **how: Any) -> dict[str, PlannedLmdb]:
    """Plan an LMDB of each domain, in the folder ``lmdbs``, of pictures as ``like`` reads and stores them.

    ``how`` are options of :func:`plan_of_images`.
    """
    form = Format(like.stored_shape[1:], reading=like.reading)
    return {
        domain.name: plan_of_images(lmdbs / domain.name, domain.entries, images.classes, form, order=(0, number), **how)
        for number, domain in enumerate(images.domains)
    }
