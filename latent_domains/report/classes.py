"""Which classes are taken for which on the target, and how many of each are right."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from latent_domains.report.chart import Chart
from latent_domains.report.comparison import Task
from latent_domains.report.domains import draw_matrix
from latent_domains.report.legend import Key
from latent_domains.report.page import Block, Charts, Section, TableBlock, Text
from latent_domains.report.palette import LIGHT, MARKS
from latent_domains.report.runs import LoadedRun
from latent_domains.report.text import printable, shortened
from latent_domains.tables.results import NOTHING

_NUMBERED = 12
"""Classes up to which the cells of a confusion matrix hold their numbers."""

DRAWN = 65
"""Classes up to which confusions and accuracies are drawn; those of more are tables, the worst first."""


def confusion(run: LoadedRun, target: str) -> NDArray[np.int64] | None:
    """Counts (classes×classes, rows true); None if the record has none, as those of older versions."""
    found = run.record.targets.get(target) if run.record else None
    return np.array(found.confusion, np.int64) if found and found.confusion else None


def confusion_chart(counts: NDArray[np.int64], classes: Sequence[str], name: str, title: str) -> Chart:
    """Shares of each true class's images, a row for each true class and a column for each predicted one."""
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

    worst = [f"{pair} {images} times" for pair, images in most_confused({name: counts}, classes, 3)]
    alt = f"Confusion matrix of {len(classes)} classes; the commonest errors: {'; '.join(worst) or 'none'}."
    side = 330 if not many else 380
    return Chart(name, title, alt, draw, width=side, height=side)


def most_confused(counts: Mapping[str, NDArray[np.int64]], classes: Sequence[str], limit: int) -> list[tuple[str, ...]]:
    """The commonest errors of several runs together: "true → predicted", then each run's images."""
    errors = np.sum(list(counts.values()), axis=0)
    np.fill_diagonal(errors, 0)
    order = np.argsort(-errors, axis=None, kind="stable")[:limit]
    places = [np.unravel_index(place, errors.shape) for place in order]
    return [
        (f"{classes[row]} → {classes[column]}", *(str(of_run[row, column]) for of_run in counts.values()))
        for row, column in places
        if errors[row, column]
    ]


def keys(shown: Mapping[str, tuple[LoadedRun, NDArray[np.int64]]]) -> list[Key]:
    """Legend of the marks of the shown runs (by name)."""
    return [
        Key(name, LIGHT[run.experiment.method], MARKS[number % len(MARKS)])
        for number, (name, (run, _)) in enumerate(shown.items())
    ]


def class_chart(
    shown: Mapping[str, tuple[LoadedRun, NDArray[np.int64]]], classes: Sequence[str], name: str, target: str
) -> Chart:
    """Accuracy on each class: a row for each class, a mark for each run (by its title) if the class was tested."""
    found = {}
    for title, (_, counts) in shown.items():
        images = counts.sum(axis=1)
        found[title] = np.where(images > 0, 100 * counts.diagonal() / np.maximum(images, 1), np.nan)
    tested = ~np.isnan(np.array(list(found.values()))).all(axis=0)
    rows = np.arange(len(classes))

    def draw(axes: Axes) -> None:
        values = np.array(list(found.values()))[:, tested]
        axes.hlines(
            rows[tested], np.nanmin(values, axis=0), np.nanmax(values, axis=0), color=LIGHT["grid"], linewidth=3
        )
        for key, of_class in zip(keys(shown), found.values(), strict=True):
            axes.plot(
                of_class,
                rows,
                linestyle="none",
                marker=key.mark,
                markersize=5.5,
                color=key.colour,
                markeredgecolor=LIGHT["ground"],
                markeredgewidth=0.6,
                label=printable(key.name),
                clip_on=False,
            )
        axes.set_xlim(0, 100)
        axes.set_ylim(len(classes) - 0.5, -0.5)
        axes.set_yticks(rows, [shortened(label, 18) for label in classes])
        axes.set_xlabel("accuracy on the class (%)")

    words = [
        f"{title}: worst {classes[int(np.nanargmin(of_class))]} {np.nanmin(of_class):.0f} %, "
        f"best {classes[int(np.nanargmax(of_class))]} {np.nanmax(of_class):.0f} %"
        for title, of_class in found.items()
    ]
    if not tested.all():
        words.append("no test images of " + ", ".join(classes[row] for row in rows[~tested]))
    return Chart(name, f"Accuracy on each class of {target}", "; ".join(words), draw, 330, 50 + 14.0 * len(classes))


def class_rows(counts: Mapping[str, NDArray[np.int64]], classes: Sequence[str]) -> list[tuple[str, ...]]:
    """Each class's name, test images, accuracy (%) by each run, and commonest error of all runs together.

    The class of the lowest mean accuracy comes first, of several the one of most images; those without test images,
    which have no numbers, come last.
    """
    images = next(iter(counts.values())).sum(axis=1)
    correct = np.array([of_run.diagonal() for of_run in counts.values()])
    errors = np.sum(list(counts.values()), axis=0)
    np.fill_diagonal(errors, 0)
    shares = 100 * correct / np.maximum(images, 1)
    order = np.lexsort((-images, shares.mean(axis=0), images == 0))
    return [
        (
            classes[row],
            str(images[row]),
            *(f"{share:.1f}" if images[row] else NOTHING for share in shares[:, row]),
            f"{classes[errors[row].argmax()]} ({errors[row].max()})" if errors[row].any() else NOTHING,
        )
        for row in order
    ]


def classes_section(tasks: Sequence[Task], shown: Sequence[LoadedRun]) -> Section:
    """Confusion matrices and accuracy on each class, of the shown runs on each target."""
    blocks: list[Block] = []
    for number, task in enumerate(tasks, 1):
        for target in task.targets:
            found = {}
            for run in shown:
                if run in task.runs and (counts := confusion(run, target)) is not None:
                    found[run.name] = (run, counts)
            if not found:
                continue
            labels = next(iter(found.values()))[0].classes
            drawn = len(labels) <= DRAWN
            if drawn:
                charts = [
                    confusion_chart(
                        counts, labels, f"confusion-{name}-{target}", f"{run.experiment.title} on {target} (%)"
                    )
                    for name, (run, counts) in found.items()
                ]
                charts.append(class_chart(found, labels, f"classes-{number}-{target}", target))
                blocks.append(Charts(charts, "" if blocks else _MATRICES, keys(found)))
            of_runs = {name: counts for name, (_, counts) in found.items()}
            if rows := most_confused(of_runs, labels, 10 if drawn else 20):
                header = ["true → predicted", *(f"#{name}" for name in found)]
                blocks.append(TableBlock(f"The commonest errors on {target}, in images", header, rows))
            if not drawn:
                header = ["class", "#images", *(f"#{name}, %" for name in found), "most often taken for"]
                caption = f"Accuracy on each of {len(labels)} classes of {target}, the worst first"
                blocks.append(TableBlock(caption, header, class_rows(of_runs, labels)))
    if not blocks:
        blocks.append(Text(_why_none(shown), note=True))
    return Section("classes", "Classes", blocks)


def _why_none(shown: Sequence[LoadedRun]) -> str:
    """Why there are no confusion counts."""
    finished = [run.experiment for run in shown if run.record]
    if finished and not any(experiment.tests for experiment in finished):
        return "The target's labels are not known, so nobody can say which classes are taken for which."
    return (
        "The records hold no confusion counts (those of older versions do not). With the run's snapshots: "
        "python -m tools.evaluate RUN."
    )


_MATRICES = (
    "Rows are true classes, columns, in the same order, what the net took them for; each row adds up to 100 %, and "
    "what lies off the diagonal are errors. The last chart is the diagonal alone: a mark for each run."
)
