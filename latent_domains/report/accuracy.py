"""Accuracy on the target: bars and curves of the lines, and their numbers beside the paper's."""

from collections.abc import Sequence

from matplotlib.axes import Axes

from latent_domains.report.chart import Chart
from latent_domains.report.comparison import CITED, Line, Task
from latent_domains.report.page import Block, Charts, Heading, Section, TableBlock, Text
from latent_domains.report.palette import LIGHT
from latent_domains.report.text import shortened
from latent_domains.report.training import target_curves
from latent_domains.tables.markdown import signed
from latent_domains.tables.results import NOTHING

_ROW = 31.0
"""Height of a line in points: its text, and its bar below."""


def _accuracy_chart(task: Task, name: str) -> Chart:
    """Bars of the lines that have a finished run or a number of the paper's, in the task's order."""
    lines = [line for line in task.lines if line.scores or line.paper is not None]

    def draw(axes: Axes) -> None:
        axes.set_xlim(0, 100)
        axes.set_ylim(len(lines) - 0.3, -0.62)
        axes.set_yticks([])
        axes.grid(axis="y", visible=False)
        axes.spines["left"].set_visible(False)
        axes.set_xlabel("accuracy on the target (%)")
        for row, line in enumerate(lines):
            _draw_line(axes, row, line)

    return Chart(
        name,
        f"Accuracy on {'+'.join(task.targets)}",
        "Bars of the mean accuracy in percent. " + "; ".join(f"{line.name}: {_told(line)}" for line in lines),
        draw,
        width=340,
        height=34 + _ROW * len(lines),
    )


def _draw_line(axes: Axes, row: int, line: Line) -> None:
    axes.text(0, row - 0.27, shortened(line.name, 34), ha="left", va="center", fontsize=10)
    axes.text(100, row - 0.27, _told(line), ha="right", va="center", fontsize=9, color=LIGHT["muted"])
    if line.mean is not None:
        axes.barh(row + 0.18, line.mean, height=0.34, color=line.colour, alpha=0.45)
        axes.plot([line.mean] * 2, [row + 0.01, row + 0.35], color=line.colour, linewidth=2.4, solid_capstyle="butt")
        if line.std:
            span = [line.mean - line.std, min(100.0, line.mean + line.std)]
            axes.plot(span, [row + 0.18] * 2, color=LIGHT["ink"], linewidth=1)
        axes.plot(
            line.scores,
            [row + 0.18] * len(line.scores),
            linestyle="none",
            marker="o",
            markersize=4,
            color=LIGHT["ground"],
            markeredgecolor=LIGHT["ink"],
            markeredgewidth=0.8,
        )
    if line.paper is not None:
        axes.plot(
            [line.paper],
            [row + 0.18],
            linestyle="none",
            marker="d",
            markersize=8,
            color=LIGHT["ink"],
            markeredgecolor=LIGHT["ground"],
            markeredgewidth=0.8,
        )


def _told(line: Line) -> str:
    """The line's mean, standard deviation and the paper's number."""
    if line.method == CITED:
        return f"the paper cites {line.paper:.1f}"
    ours = "no run yet" if line.mean is None else line.in_words()
    return ours + (f", paper {line.paper:.1f}" if line.paper is not None else "")


def accuracy_section(tasks: Sequence[Task]) -> Section:
    """Bars and learning curves of each task, then their numbers."""
    blocks: list[Block] = []
    said = set()
    for number, task in enumerate(tasks, 1):
        if len(tasks) > 1:
            blocks.append(Heading(task.name))
        bars = []
        if any(line.scores or line.paper is not None for line in task.lines):
            bars.append(_accuracy_chart(task, f"accuracy-{number}"))
        else:
            finished = any(run.record for run in task.runs)
            why = "The target's labels are not known" if finished else "No run is finished yet"
            blocks.append(Text(f"{why}, so there is no accuracy to show.", note=True))
        curves = target_curves(task, f"curve-{number}")
        texts = [text for charts, text in ((bars, _BARS), (curves, _CURVES)) if charts and text not in said]
        said |= set(texts)
        keys = [line.key for line in task.lines if any(run.curves for run in line.runs)] if curves else []
        if bars or curves:
            blocks.append(Charts([*bars, *curves], " ".join(texts), keys))
    names = [[line.name for line in task.lines] for task in tasks]
    if len(tasks) > 1 and all(of_task == names[0] for of_task in names):
        blocks.append(_table_of_several(tasks))
    else:
        blocks += [_table_of_one(task) for task in tasks]
    return Section("accuracy", "Accuracy on the target", blocks)


_BARS = (
    "Each bar is the mean over the seeds, at the last iteration; the dots are the seeds, the thin line spans one "
    "standard deviation on both sides. The dark diamond is the number printed in the paper."
)
_CURVES = (
    "The curves show how the accuracy grew: their lines are means over the seeds, their bands go from the lowest seed "
    "to the highest. Target labels are looked at here alone: training never sees them, and no iteration is chosen by "
    "them."
)


def _table_of_one(task: Task) -> TableBlock:
    rows = [
        [
            line.name,
            _paper(line),
            NOTHING if line.mean is None else f"{line.mean:.1f}",
            NOTHING if line.std is None else f"{line.std:.1f}",
            str(line.n or NOTHING),
            NOTHING if line.mean is None or line.paper is None else signed(line.mean - line.paper),
        ]
        for line in task.lines
    ]
    header = ["method", "#paper (%)", "#here (%)", "#std", "#n", "#difference"]
    return TableBlock(f"Accuracy, {task.name}", header, rows)


def _table_of_several(tasks: Sequence[Task]) -> TableBlock:
    """Lines of the same names: a row for each, two columns for each task."""
    rows = []
    for lines in zip(*(task.lines for task in tasks), strict=True):
        rows.append([lines[0].name, *(cell for line in lines for cell in (_paper(line), _here(line)))])
    header = [name for task in tasks for name in (f"#{task.name}, paper", "#here (n)")]
    return TableBlock("Accuracy (%): the paper's, then ours with the number of seeds", ["method", *header], rows)


def _paper(line: Line) -> str:
    return NOTHING if line.paper is None else f"{line.paper:.1f}"


def _here(line: Line) -> str:
    return line.in_words() + (f" ({line.n})" if line.n else "")
