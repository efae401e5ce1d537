"""Curves along training: accuracies and the terms of the loss, a line for each method, its band over the seeds."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes

from tools.report.chart import Chart
from tools.report.comparison import Line, Setting

BINS = 50
"""Points of a curve at most: what the log has more of is averaged."""

TERMS = {
    "loss_class": "Classification log-loss (source)",
    "entropy_class": "Class entropy h_C (target, nats)",
    "entropy_domain": "Domain entropy h_D (source, nats)",
    "loss_domain": "Domain log-loss (known labels)",
    "entropy_target_domain": "Domain entropy h_D (target, nats)",
    "domain_balance": "Entropy of the mean assignment (nats)",
}
"""Loss terms by the names of the net's outputs: Eq. 7's, the targets' own branch's, and the balance's."""

Curve = Mapping[int, float]


def accuracy_curves(setting: Setting, prefix: str) -> list[Chart]:
    """Charts of the accuracy on each target and on the sources' training batches; those the logs tell of."""
    charts = []
    for target in setting.targets:
        name = "accuracy" if len(setting.targets) == 1 else f"accuracy_{target}"
        title = f"Accuracy on {target} (%)"
        charts.append(_chart(setting.lines, ("test", name), f"{prefix}-{name}", title, factor=100))
    title = "Accuracy on source batches (%)"
    charts.append(_chart(setting.lines, ("train", "source_accuracy"), f"{prefix}-source", title, factor=100))
    return [chart for chart in charts if chart]


def loss_curves(setting: Setting, prefix: str) -> list[Chart]:
    """A chart for each loss term that the logs tell of."""
    charts = [_chart(setting.lines, ("train", key), f"{prefix}-{key}", title) for key, title in TERMS.items()]
    return [chart for chart in charts if chart]


def _chart(lines: Sequence[Line], key: tuple[str, str], name: str, title: str, factor: float = 1) -> Chart | None:
    found = [(line, curves) for line in lines if (curves := [c for run in line.runs if (c := run.curves.get(key))])]
    if not found:
        return None
    last = []
    for line, curves in found:
        _, mean, _ = mean_and_spread(curves)
        last.append(f"{line.name} {factor * mean[-1]:.3g}")

    def draw(axes: Axes) -> None:
        for line, curves in found:
            draw_curves(axes, line, curves, factor)
        axes.set_xlabel("iteration")
        axes.margins(x=0.01)

    return Chart(name, title, f"{title} against the iterations. At the end: {'; '.join(last)}.", draw)


def draw_curves(axes: Axes, line: Line, curves: Sequence[Curve], factor: float = 1) -> None:
    """A line's mean over its seeds, and from two seeds on a band of one standard deviation around it."""
    iterations, mean, std = mean_and_spread(curves)
    mean, std = factor * mean, factor * std
    axes.plot(
        iterations, mean, color=line.colour, linestyle=line.dashes, marker=line.mark, markersize=3.5,
        markevery=(len(mean) // 8 + line.number, max(1, len(mean) // 3)), label=line.name,
    )  # fmt: skip
    if len(curves) > 1:
        axes.fill_between(iterations, mean - std, mean + std, color=line.colour, alpha=0.15, linewidth=0)


def mean_and_spread(curves: Sequence[Curve]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Iterations, mean and standard deviation over the curves (n each), n at most ``BINS``.

    At iterations that all curves have; curves that have none in common are read off between their points.
    """
    shared = sorted(set.intersection(*(set(curve) for curve in curves)))
    if not shared:
        shared = sorted(set.union(*(set(curve) for curve in curves)))
    values = np.array([np.interp(shared, *np.array(sorted(curve.items())).T) for curve in curves])
    bins = np.array_split(np.arange(len(shared)), min(BINS, len(shared)))
    iterations = np.array([np.mean(np.array(shared)[part]) for part in bins])
    binned = np.array([[value[part].mean() for part in bins] for value in values])
    return iterations, binned.mean(axis=0), binned.std(axis=0, ddof=1 if len(curves) > 1 else 0)
