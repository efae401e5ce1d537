"""Accuracy on the target: a bar for each line, a dot for each seed, and the paper's mark."""

from matplotlib.axes import Axes

from latent_domains.report.chart import Chart
from latent_domains.report.comparison import CITED, Line, Setting
from latent_domains.report.palette import LIGHT
from latent_domains.report.text import shortened

_ROW = 31.0
"""Height of a line in points: its text, and its bar below."""


def accuracy_chart(setting: Setting, name: str) -> Chart:
    """Bars of the lines that have a finished run or a number of the paper's, in the setting's order."""
    lines = [line for line in setting.lines if line.scores or line.paper is not None]

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
        f"Accuracy on {'+'.join(setting.targets)}",
        "Bars of the mean accuracy in percent. " + "; ".join(f"{line.name}: {in_words(line)}" for line in lines),
        draw,
        width=340,
        height=34 + _ROW * len(lines),
    )


def _draw_line(axes: Axes, row: int, line: Line) -> None:
    axes.text(0, row - 0.27, shortened(line.name, 34), ha="left", va="center", fontsize=10)
    axes.text(100, row - 0.27, in_words(line), ha="right", va="center", fontsize=9, color=LIGHT["muted"])
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


def in_words(line: Line) -> str:
    """The line's mean, standard deviation and the paper's number."""
    if line.method == CITED:
        return f"the paper cites {line.paper:.1f}"
    if line.mean is None:
        ours = "no run yet"
    elif line.std is None:
        ours = f"{line.mean:.1f}"
    else:
        ours = f"{line.mean:.1f} ± {line.std:.1f}"
    return ours + (f", paper {line.paper:.1f}" if line.paper is not None else "")
