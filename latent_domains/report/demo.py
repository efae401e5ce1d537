"""The demo's pictures: what the domains look like, how training went, what the branch discovered.

They are the report's charts, put together in PNG files.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from latent_domains.report.chart import Chart, save
from latent_domains.report.comparison import tasks_of
from latent_domains.report.domains import matrix_chart
from latent_domains.report.runs import load_runs
from latent_domains.report.samples import mosaic_chart
from latent_domains.report.text import subscript
from latent_domains.report.training import loss_curves, target_curves
from latent_domains.runs.record import DomainUsage
from latent_domains.runs.run_folder import RunFolder


def draw_samples(path: Path, domains: Mapping[str, NDArray[np.uint8]]) -> None:
    """One panel per domain (title → images n×C×H×W), 8 images a row."""
    save(path, [_many(title, images) for title, images in domains.items()])


def draw_learning_curves(path: Path, runs: Sequence[RunFolder]) -> None:
    """Accuracy on the target, loss, h_C, and accuracy on the sources' batches, against iterations."""
    [task] = tasks_of(load_runs([run.path for run in runs])[0])
    terms = ("loss_class", "entropy_class", "source_accuracy")
    save(path, [*target_curves(task), *loss_curves(task, terms)], columns=2)


@dataclass(frozen=True)
class Discovery:
    """What a branch made of the source images: ``images[d]`` (n×C×H×W) some of domain d."""

    title: str
    usage: DomainUsage
    images: Sequence[NDArray[np.uint8]]


def draw_latent_domains(path: Path, discoveries: Sequence[Discovery]) -> None:
    """A row per run: true source domains against latent domains, then images of each latent domain."""
    charts = []
    for discovery in discoveries:
        charts.append(matrix_chart(discovery.usage, discovery.title))
        for d, (share, images) in enumerate(zip(discovery.usage.share, discovery.images, strict=True), 1):
            charts.append(_many(f"s{subscript(d)}: {100 * share:.1f} % of the images", images))
    save(path, charts, columns=len(charts) // len(discoveries))


def _many(title: str, images: NDArray[np.uint8]) -> Chart:
    return mosaic_chart(title, f"{len(images)} images", images, width=280, height=230)
