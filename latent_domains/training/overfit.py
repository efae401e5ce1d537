"""A net learns a handful of real pictures by heart: which pictures, and how well it knows them."""

from pathlib import Path

import numpy as np
from google.protobuf import text_format

from latent_domains.common.caffe_log import curves
from latent_domains.common.files import write_text
from latent_domains.common.program import ProgramError
from latent_domains.data.image_list import Entry
from latent_domains.data.sets import trees
from latent_domains.data.sets.published import PACS
from latent_domains.experiment.datasets import of_network
from latent_domains.experiment.networks import NETWORKS
from latent_domains.runs.run_folder import RunFolder

NETS = tuple(name for name in NETWORKS if of_network(name).crop)
"""The nets that see pictures."""

DOMAINS = ("art_painting", "cartoon", "photo")
"""The domains of PACS that are taken for the two sources and the target."""

EACH = 4
"""Pictures of each class and domain."""

GOAL = 0.9

LAST = 10
"""Iterations that are averaged at the end. A batch holds half of the pictures: each of them counts five times."""


def choose(images: Path, seed: int) -> dict[str, list[Entry]]:
    """EACH pictures of every class from each of DOMAINS. Raises ProgramError naming a class that has fewer."""
    tree = trees.read(images, PACS)
    rng = np.random.default_rng(seed)
    chosen: dict[str, list[Entry]] = {domain: [] for domain in DOMAINS}
    for domain in DOMAINS:
        for name in PACS.classes:
            entries = tree.images.get(domain, {}).get(name, [])
            if len(entries) < EACH:
                raise ProgramError(f"{images}: {len(entries)} images of {domain}/{name}, expected at least {EACH}")
            chosen[domain] += [entries[i] for i in rng.choice(len(entries), EACH, replace=False)]
    return chosen


def training_accuracy(run: RunFolder) -> float:
    """Accuracy on the source images of the last iterations, from a log that has every iteration's."""
    values = curves(run.log.read_text(errors="replace").splitlines())[("train", "source_accuracy")]
    return float(np.mean([values[iteration] for iteration in sorted(values)[-LAST:]]))


def display_every_iteration(run: RunFolder) -> None:
    """Make the run's log have the accuracy of every batch."""
    solver = run.read_solver()
    solver.display = 1
    write_text(run.solver, text_format.MessageToString(solver))
