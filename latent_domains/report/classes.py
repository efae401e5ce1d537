"""The classes on the target: confusion matrices, and the accuracy on each."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from latent_domains.report.chart import Chart, shortened
from latent_domains.report.comparison import ComparedTask
from latent_domains.report.domains import draw_matrix
from latent_domains.report.page import Block, Charts, Section, TableBlock, Text
from latent_domains.report.runs import LoadedRun
from latent_domains.tables.results import NOTHING

_NUMBERED = 12
"""With up to this many classes the cells of a confusion matrix show their numbers."""

DRAWN = 65
"""With up to this many classes confusion matrices are drawn."""


def confusion_chart(counts: NDArray[np.int64], classes: Sequence[str], title: str) -> Chart:
    """Draw the shares of each true class's images (rows) that go to each predicted class (columns)."""
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    many = len(classes) > _NUMBERED
    rows = [shortened(label, 16) for label in classes]
    texts = [] if many else [f"{100 * share:.0f}" if share >= 0.005 else "" for share in shares.flat]

    def draw(axes: Axes) -> None:
        draw_matrix(axes, shares, rows, [] if many else rows, texts)
        axes.tick_params(axis="x", rotation=90 if max(map(len, rows)) > 2 else 0)
        if many:
            axes.tick_params(axis="y", labelsize=max(4, 8 - len(classes) / 16))
        axes.set_xlabel("predicted class")
        axes.set_ylabel("true class")

    alt = f"Confusion matrix of {len(classes)} classes, whose numbers are in the table below"
    side = 330 if not many else 380
    return Chart(title, alt, draw, width=side, height=side)


def class_rows(counts: Mapping[str, NDArray[np.int64]], classes: Sequence[str]) -> list[tuple[str, ...]]:
    """Return for each class: name, test images, accuracy (%) of each run, and the most frequent error of all runs.

    Classes with the lowest mean accuracy come first, and of equal ones those with the most images. Classes without test
    images have no numbers and come last. If runs have different test images, all numbers of images are given.
    """
    images = np.array([of_run.sum(axis=1) for of_run in counts.values()])
    most = images.max(axis=0)
    correct = np.array([of_run.diagonal() for of_run in counts.values()])
    errors = np.sum(list(counts.values()), axis=0)
    np.fill_diagonal(errors, 0)
    shares = 100 * correct / np.maximum(images, 1)
    order = np.lexsort((-most, np.ma.array(shares, mask=images == 0).mean(axis=0).filled(0), most == 0))
    return [
        (
            classes[row],
            " / ".join(map(str, dict.fromkeys(images[:, row]))),
            *(f"{share:.1f}" if of else NOTHING for share, of in zip(shares[:, row], images[:, row], strict=True)),
            f"{classes[errors[row].argmax()]} ({errors[row].max()})" if errors[row].any() else NOTHING,
        )
        for row in order
    ]


def classes_section(tasks: Sequence[ComparedTask], pictured: Sequence[LoadedRun]) -> Section:
    """Return confusion matrices and accuracy on each class, of the runs to picture on each target."""
    blocks: list[Block] = []
    for number, task in enumerate(tasks, 1):
        for target in task.targets:
            runs = [run for run in pictured if run in task.runs]
            tested = {run.name: run.record.targets.get(target) for run in runs if run.record}
            counts = {name: np.array(one.confusion) for name, one in tested.items() if one and one.confusion}
            if not counts:
                continue
            labels = next(run.classes for run in runs if run.name in counts)
            if len(labels) <= DRAWN:
                titles = {run.name: f"{run.experiment.title} on {target} (%)" for run in runs}
                charts = [confusion_chart(found, labels, titles[name]) for name, found in counts.items()]
                blocks.append(Charts(f"confusion-{number}-{target}", charts))
            taken_for = "taken for (all runs)" if len(counts) > 1 else "most often taken for"
            header = ["class", "#images", *(f"#{name}, %" for name in counts), taken_for]
            rows = class_rows(counts, labels)
            blocks.append(TableBlock(f"Accuracy on each class of {target}, the worst first", header, rows))
    if not blocks:
        why = "The records hold no confusion counts. With the run's snapshots: python -m tools.evaluate RUN."
        finished = [run.experiment for run in pictured if run.record]
        if finished and not any(experiment.task.tests for experiment in finished):
            why = "The target's labels are not known, so no confusion matrix can be shown."
        blocks.append(Text(why, note=True))
    return Section("classes", "Classes", blocks)
