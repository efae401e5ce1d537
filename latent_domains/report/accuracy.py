"""Accuracy on the target: a bar and a curve for each method, and the numbers beside the paper's; the losses."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from latent_domains.common.wording import some
from latent_domains.report.chart import COLOURS, Chart, in_legend, in_lines, lines_of
from latent_domains.report.comparison import ComparedTask, Line
from latent_domains.report.page import Block, Charts, Heading, Section, TableBlock, Text
from latent_domains.tables.markdown import signed
from latent_domains.tables.results import NOTHING

BINS = 50
"""The most points of a curve. If the log has more, they are averaged."""

TERMS = {
    "loss_class": "Classification log-loss (source)",
    "entropy_class": "Class entropy h_C (target, nats)",
    "entropy_domain": "Domain entropy h_D (source, nats)",
    "loss_domain": "Domain log-loss (known labels)",
    "entropy_target_domain": "Domain entropy h_D (target, nats)",
    "domain_balance": "Entropy of the mean assignment (nats)",
    "source_accuracy": "Accuracy on source batches (%)",
}
"""Titles by the net's outputs: the terms of Eq. 7, of the targets' branch, of the balance; and an accuracy."""

Curve = Mapping[int, float]


def target_curves(task: ComparedTask) -> list[Chart]:
    """Draw the accuracy on each target that the logs contain."""
    experiment = task.runs[0].experiment if task.runs else None  # all runs have the same targets
    names = {target: experiment.task.accuracy_name(target) for target in task.targets} if experiment else {}
    charts = [_chart(task.lines, ("test", name), f"Accuracy on {target} (%)") for target, name in names.items()]
    return [chart for chart in charts if chart]


def _chart(lines: Sequence[Line], key: tuple[str, str], title: str) -> Chart | None:
    found = [(line, curves) for line in lines if (curves := [c for run in line.runs if (c := run.curves.get(key))])]
    if not found:
        return None
    factor = 100 if title.endswith("(%)") else 1
    ends = [binned(curves)[1].mean(axis=0).filled(np.nan)[-1] for _, curves in found]
    last = [f"{line.name} {factor * end:.3g}" for (line, _), end in zip(found, ends, strict=True)]

    def draw(axes: Axes) -> None:
        for line, curves in found:
            iterations, values = binned(curves)
            _draw_curves(axes, line, iterations, factor * values)
        axes.set_xlabel("iteration")
        axes.margins(x=0.01)

    return Chart(title, f"{title} against the iterations. At the end: {'; '.join(last)}.", draw)


def _draw_curves(axes: Axes, line: Line, iterations: NDArray[np.float64], values: np.ma.MaskedArray) -> None:
    """Draw a line's mean over its seeds and, with several seeds, a band from the lowest to the highest."""
    mean = values.mean(axis=0)
    axes.plot(
        iterations,
        mean,
        color=line.colour,
        linestyle=line.dashes,
        marker=line.mark,
        markersize=3.5,
        markevery=(len(mean) // 8 + line.number, max(1, len(mean) // 3)),
        label=in_legend(line.name),
    )
    if len(values) > 1:
        axes.fill_between(
            iterations, values.min(axis=0), values.max(axis=0), color=line.colour, alpha=0.15, linewidth=0
        )


def binned(curves: Sequence[Curve]) -> tuple[NDArray[np.float64], np.ma.MaskedArray]:
    """Return iterations (n) and the curves' values at these (curves×n); n is at most ``BINS``.

    A curve is interpolated at an iteration that only another curve has. Before its first and after its last iteration
    (as in an unfinished run) its values are masked.
    """
    iterations = np.array(sorted(set().union(*curves)))
    values = [np.interp(iterations, *np.array(sorted(curve.items())).T, np.nan, np.nan) for curve in curves]
    rows = np.ma.masked_invalid([iterations, *values])
    means = np.ma.stack([part.mean(axis=1) for part in np.array_split(rows, min(BINS, len(iterations)), axis=1)], 1)
    return means[0].data, means[1:]


def _why_no_curves(task: ComparedTask) -> str:
    silent = [run.name for run in task.runs if run.folder and run.curves and not run.folder.read_solver().display]
    if silent:
        return (
            f"The log of {some(silent, 3)} has no losses, so there are no curves: display is 0 in RUN/solver.prototxt. "
            "Training the run again with another display writes them."
        )
    names = some([run.name for run in task.runs], 3) or task.name
    return (
        f"No training log of {names} is here, so there are no curves: a kept record has only the result. Training the "
        "run again writes RUN/train.log."
    )


def training_section(tasks: Sequence[ComparedTask]) -> Section:
    """Return the terms of the loss, for each task."""
    blocks: list[Block] = []
    for number, task in enumerate(tasks, 1):
        if len(tasks) > 1:
            blocks.append(Heading(task.name))
        charts = [_chart(task.lines, ("train", term), title) for term, title in TERMS.items()]
        if charts := [chart for chart in charts if chart]:
            blocks.append(Charts(f"training-{number}", charts))
        else:
            blocks.append(Text(_why_no_curves(task), note=True))
    return Section("training", "Along training", blocks)


def _accuracy_chart(task: ComparedTask) -> Chart:
    """Return a bar for each line that has a finished run or a number of the paper's, in the task's order."""
    lines = [line for line in task.lines if line.scores or line.paper is not None]
    names = [in_lines(line.name, 34) for line in lines]
    height = 70 + max(22, 12 * lines_of(names)) * len(lines)

    def draw(axes: Axes) -> None:
        dot = {"linestyle": "none", "color": COLOURS["ink"]}
        for row, line in enumerate(lines):
            if line.mean is not None:
                axes.barh(row, line.mean, height=0.6, color=line.colour, alpha=0.5, xerr=line.std)
                axes.plot(line.scores, [row] * len(line.scores), **dot, marker="o", markersize=3)
                axes.text(1, row, line.in_words(), va="center", fontsize=9)
            if line.paper is not None:
                axes.plot([line.paper], [row], **dot, marker="d", markersize=8, markeredgecolor=COLOURS["ground"])
        axes.set_xlim(0, 100)
        axes.set_ylim(len(lines) - 0.5, -0.5)
        axes.set_yticks(range(len(lines)), names)
        axes.grid(axis="y", visible=False)
        axes.set_xlabel("accuracy on the target (%)")

    told = "; ".join(f"{line.name} {line.in_words()}" for line in lines)
    return Chart(f"Accuracy on {'+'.join(task.targets)}", told, draw, width=420, height=height)


def accuracy_section(tasks: Sequence[ComparedTask]) -> Section:
    """Return bars and learning curves of each task, then their numbers."""
    blocks: list[Block] = []
    for number, task in enumerate(tasks, 1):
        if len(tasks) > 1:
            blocks.append(Heading(task.name))
        charts = target_curves(task)
        if any(line.scores or line.paper is not None for line in task.lines):
            charts = [_accuracy_chart(task), *charts]
        else:
            finished = any(run.record for run in task.runs)
            why = "The target's labels are not known" if finished else "No run is finished yet"
            blocks.append(Text(f"{why}, so there is no accuracy to show.", note=True))
        if charts:
            blocks.append(Charts(f"accuracy-{number}", charts))
        if changed := task.changed_lmdbs:
            said = f"Runs read different records in {', '.join(changed)}, so their accuracies cannot be compared."
            blocks.append(Text(said, note=True))
    return Section("accuracy", "Accuracy on the target", [*blocks, _numbers(tasks)])


def _numbers(tasks: Sequence[ComparedTask]) -> TableBlock:
    """Return all numbers; the paper's and the differences from them if it has any."""
    rows = [
        {
            "method": line.name,
            "task": task.name,
            "#paper (%)": NOTHING if line.paper is None else f"{line.paper:.1f}",
            "#here (%)": NOTHING if line.mean is None else f"{line.mean:.1f}",
            "#std": NOTHING if line.std is None else f"{line.std:.1f}",
            "#n": str(line.n or NOTHING),
            "#difference": NOTHING if line.mean is None or line.paper is None else signed(line.mean - line.paper),
        }
        for task in tasks
        for line in task.lines
    ]
    absent = {"task"} if len(tasks) == 1 else set()
    if all(line.paper is None for task in tasks for line in task.lines):
        absent |= {"#paper (%)", "#difference"}
    header = [name for name in rows[0] if name not in absent]
    return TableBlock("Accuracy", header, [[row[name] for name in header] for row in rows])
