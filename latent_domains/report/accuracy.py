"""Accuracy on the target: a bar and a curve for each method, and the numbers beside the paper's."""

from collections.abc import Sequence

from matplotlib.axes import Axes

from latent_domains.report.chart import Chart, in_lines, lines_of
from latent_domains.report.comparison import ComparedTask
from latent_domains.report.page import Block, Charts, Heading, Section, TableBlock, Text
from latent_domains.report.palette import COLOURS
from latent_domains.report.training import target_curves
from latent_domains.tables.markdown import signed
from latent_domains.tables.results import NOTHING


def _accuracy_chart(task: ComparedTask) -> Chart:
    """A bar for each line that has a finished run or a number of the paper's, in the task's order."""
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
    """Bars and learning curves of each task, then their numbers."""
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
    """All numbers; the paper's and the differences from them if it has any."""
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
