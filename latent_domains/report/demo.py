"""The demo's pictures: what the domains look like, and what the branches discovered, as PNG files."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from latent_domains.report.chart import Chart, latent_name, save
from latent_domains.report.domains import matrix_chart
from latent_domains.report.samples import mosaic_chart, read_source_images
from latent_domains.runs.record import Record
from latent_domains.runs.run_folder import RunFolder

DRAWN = 48
"""Images of each latent domain."""


def draw_samples(path: Path, domains: Mapping[str, NDArray[np.uint8]]) -> None:
    """One panel per domain (title → images n×C×H×W), 8 images a row."""
    save(path, [_many(title, images) for title, images in domains.items()])


def draw_latent_domains(path: Path, runs: Sequence[tuple[RunFolder, Record]], seed: int) -> None:
    """A row for each run with a branch: true against latent domains, then images of each, chosen by ``seed``."""
    charts = []
    for folder, record in runs:
        charts.append(matrix_chart(record.domain_usage, folder.experiment.title))
        found = read_source_images(folder, folder.final_snapshot())
        assigned = found.probabilities.argmax(axis=1)
        order = np.random.default_rng(seed).permutation(len(assigned))
        for domain, share in enumerate(record.domain_usage.share):
            images = found.images[order[assigned[order] == domain][:DRAWN]]
            charts.append(_many(f"{latent_name(domain)}: {100 * share:.1f} % of the images", images))
    save(path, charts, columns=len(charts) // len(runs))


def _many(title: str, images: NDArray[np.uint8]) -> Chart:
    return mosaic_chart(title, f"{len(images)} images", images, width=280, height=230)
