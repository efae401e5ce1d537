"""Charts that matplotlib draws side by side in one SVG or PNG file, and names as a page or chart can show them.

The colours are Okabe & Ito's, which colour-blind people can distinguish. Dashes and marks distinguish the same lines.
"""

import io
import re
import textwrap
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from latent_domains.common.files import write_aside

COLOURS = {
    "ink": "#1b2028",
    "muted": "#57606b",
    "grid": "#d6dce3",
    "ground": "#fefefe",
    "gong2013": "#9a6700",
    "hoffman2012": "#a2487f",
}
"""Colours of what is no data, and of the shallow methods that discover domains. Other methods have their own."""

GROUP_COLOURS = (
    *("#0073b3", "#c98500", "#00906a", "#b0528c", "#5b5fc7"),
    *("#b3402a", "#5f6b00", "#00808a", "#7a4b2a", "#3d444d"),
)
"""Colours of domains or classes, repeated if there are more."""

MARKS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")
"""Marks of domains, and of the lines of one method, repeated if there are more."""

Dashes = str | tuple[int, tuple[float, ...]]

DASHES: tuple[Dashes, ...] = ("-", "--", ":", "-.", (0, (6, 1.5, 1, 1.5, 1, 1.5)))
"""Dashes of the lines of one method, repeated if there are more."""

STYLE = {
    "svg.fonttype": "none",
    "text.usetex": False,  # whatever the user's own settings say
    "text.parse_math": False,  # names are shown as they are, dollars too
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.edgecolor": COLOURS["grid"],
    "axes.labelcolor": COLOURS["muted"],
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.facecolor": COLOURS["ground"],
    "figure.titlesize": 10,
    "figure.titleweight": "bold",
    "grid.color": COLOURS["grid"],
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "lines.linewidth": 1.7,
    "text.color": COLOURS["ink"],
    "xtick.color": COLOURS["grid"],
    "ytick.color": COLOURS["grid"],
    "xtick.labelcolor": COLOURS["muted"],
    "ytick.labelcolor": COLOURS["muted"],
}
"""Matplotlib's settings for every chart."""


POINTS = 72
"""Points in an inch."""

_LETTER, _LINE = 6.5, 15
"""Width of a title's letter and height of its line, in points."""

_LABEL, _SAMPLE = 5, 45
"""In a legend, the width of a letter, and that of the sample line with its space, in points."""

_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
"""Characters that XML cannot contain, and those that represent bytes of a file name that are not UTF-8."""


@dataclass(frozen=True)
class Chart:
    """A picture of numbers. ``draw`` fills one pair of axes; ``width`` and ``height`` are in points.

    ``title`` is above it, cut if it is long; ``alt`` describes it in words.
    """

    title: str
    alt: str
    draw: Callable[[Axes], None]
    width: float = 300
    height: float = 210


def image(charts: Sequence[Chart], columns: int | None = None, *, kind: str = "svg") -> bytes:
    """Return charts in a grid, ``columns`` in a row (None: all), above a legend of their lines, as SVG or PNG."""
    file = io.BytesIO()
    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # browsers have more fonts
        metadata = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
        _figure(charts, min(columns or len(charts), len(charts))).savefig(file, format=kind, metadata=metadata, dpi=160)
    return file.getvalue()


def save(path: Path, charts: Sequence[Chart], columns: int | None = None) -> None:
    """Write charts as one file, SVG or PNG by its suffix (see :func:`image`)."""
    contents = image(charts, columns, kind=path.suffix[1:])
    with write_aside(path) as aside:
        aside.write_bytes(contents)


def _figure(charts: Sequence[Chart], columns: int) -> Figure:
    rows = [charts[i : i + columns] for i in range(0, len(charts), columns)]
    width = max(sum(chart.width for chart in row) for row in rows)
    heights = [max(chart.height for chart in row) for row in rows]
    figure = Figure(figsize=(width / POINTS, sum(heights) / POINTS), layout="constrained")
    grid = figure.subfigures(
        len(rows), columns, squeeze=False, height_ratios=heights, width_ratios=[chart.width for chart in rows[0]]
    )
    legend = {}
    for part, chart in zip(grid.flat, charts, strict=False):  # the last row may be short
        axes = part.subplots()
        chart.draw(axes)
        part.suptitle(_title(chart), x=5 / chart.width, ha="left")
        for line, label in zip(*axes.get_legend_handles_labels(), strict=True):
            legend.setdefault(label, line)
    if legend:
        labels = [in_lines(label, int((width - _SAMPLE) / _LABEL)) for label in legend]
        longest = max(len(line) for label in labels for line in label.split("\n"))
        across = max(1, int(width / (_SAMPLE + _LABEL * longest)))
        height = _LINE * lines_of(labels) * -(-len(labels) // across)
        figure.set_figheight(figure.get_figheight() + height / POINTS)
        figure.legend(legend.values(), labels, loc="outside lower center", ncols=across, fontsize=9)
    return figure


def _title(chart: Chart) -> str:
    """Return the title in lines, which need at most a third of the chart's height."""
    letters, most = int(chart.width / _LETTER), max(1, int(chart.height / 3 / _LINE))
    lines = textwrap.wrap(printable(chart.title), letters)
    if len(lines) > most:
        lines[most - 1 :] = [f"{lines[most - 1][: letters - 1]}…"]
    return "\n".join(lines)


def printable(text: str) -> str:
    """Return ``text`` with a replacement character for each that cannot be shown."""
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def in_legend(text: str) -> str:
    """Return ``text`` as a line's label, after a blank: matplotlib omits labels that begin with an underscore."""
    return printable(f" {text}" if text.startswith("_") else text)


def identifier(text: str) -> str:
    """Return ``text`` as an element's id and a file's name."""
    return re.sub(r"[^\w.+-]+", "-", text)


def latent_name(domain: int) -> str:
    """Return the name of a latent domain, counted from 0: s₁, s₂, …"""
    return "s" + str(domain + 1).translate(str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉"))


def in_lines(text: str, length: int) -> str:
    """Return ``text`` for a chart, printable and in lines of at most ``length`` letters."""
    return "\n".join(textwrap.wrap(printable(text), length))


def lines_of(texts: Sequence[str]) -> int:
    """Return the most lines that one of the texts has."""
    return 1 + max(text.count("\n") for text in texts)


def shortened(text: str, length: int) -> str:
    """Return ``text`` for a chart: printable, and cut after ``length`` characters, with an ellipsis."""
    text = printable(text)
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"
