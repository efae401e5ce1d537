"""The demo's pictures: what the domains look like, how training went, what the branch discovered.

They are the report's charts (latent_domains.report), put together in PNG files.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from latent_domains.report.chart import Chart, save_together
from latent_domains.report.comparison import tasks_of
from latent_domains.report.domains import matrix_chart
from latent_domains.report.runs import load_runs
from latent_domains.report.samples import mosaic, picture_chart
from latent_domains.report.text import subscript
from latent_domains.report.training import loss_curves, target_curves
from latent_domains.runs.record import DomainUsage
from latent_domains.runs.run_folder import RunFolder


def draw_samples(path: Path, domains: Mapping[str, NDArray[np.uint8]]) -> None:
    """One panel per domain (title → images n×C×H×W), 8 images a row."""
    save_together(path, [_mosaic_chart(title, images) for title, images in domains.items()])


def draw_learning_curves(path: Path, runs: Sequence[RunFolder]) -> None:
    """Accuracy on the target, h_C, and accuracy on the sources' batches, against iterations."""
    [task] = tasks_of(load_runs([run.path for run in runs])[0])
    of_losses = [chart for chart in loss_curves(task, "loss") if chart.name.endswith(("_class", "_accuracy"))]
    save_together(path, [*target_curves(task, "curve"), *of_losses], columns=2)


@dataclass(frozen=True)
class Discovery:
    """What a branch made of the source images: ``images[d]`` (n×C×H×W) some of domain d."""

    title: str
    usage: DomainUsage
    images: Sequence[NDArray[np.uint8]]


def draw_latent_domains(path: Path, discoveries: Sequence[Discovery]) -> None:
    """A row per run: true source domains against latent domains, then images of each latent domain."""
    rows = []
    for discovery in discoveries:
        row = [matrix_chart(discovery.usage, "matrix", discovery.title)]
        for d, images in enumerate(discovery.images):
            share = discovery.usage.share[d]
            row.append(_mosaic_chart(f"s{subscript(d + 1)}: {100 * share:.1f} % of the images", images))
        rows.append(row)
    columns = max(map(len, rows))
    save_together(path, [chart for row in rows for chart in (*row, *[_EMPTY] * (columns - len(row)))], columns)


def _mosaic_chart(title: str, images: NDArray[np.uint8]) -> Chart:
    """Images (n×C×H×W), 8 in a row."""
    picture = mosaic(images, 8) if len(images) else np.empty((0, 0, 3), np.uint8)
    return picture_chart(title, f"{len(images)} images", picture, width=280, height=230)


_EMPTY = Chart("empty", "", "", lambda axes: axes.axis("off"), width=280, height=230)
