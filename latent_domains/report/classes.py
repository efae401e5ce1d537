"""Which classes are taken for which on the target, and how many of each are right."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from latent_domains.report.chart import Chart
from latent_domains.report.domains import draw_matrix
from latent_domains.report.legend import Key
from latent_domains.report.palette import LIGHT, MARKS
from latent_domains.report.runs import Run
from latent_domains.report.text import printable, shortened

_NUMBERED = 12
"""Classes up to which the cells of a confusion matrix hold their numbers."""


def confusion(run: Run, target: str) -> NDArray[np.int64] | None:
    """Counts (classes×classes, rows true); None if the record has none, as those of older versions."""
    counts = run.record["targets"].get(target, {}).get("confusion") if run.record else None
    return np.array(counts, np.int64) if counts else None


def names(run: Run) -> list[str]:
    """The classes' names, or their labels."""
    known = run.record.get("classes") if run.record else None
    return list(known) if known else [str(label) for label in range(run.experiment.data.classes)]


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


def keys(shown: Mapping[str, tuple[Run, NDArray[np.int64]]]) -> list[Key]:
    """Legend of the marks of the shown runs (by name)."""
    return [
        Key(name, LIGHT[run.experiment.method], MARKS[number % len(MARKS)])
        for number, (name, (run, _)) in enumerate(shown.items())
    ]


def class_chart(
    shown: Mapping[str, tuple[Run, NDArray[np.int64]]], classes: Sequence[str], name: str, target: str
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
