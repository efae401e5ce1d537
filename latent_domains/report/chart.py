"""A chart: drawn once by matplotlib, for the page as inline SVG and for a folder as SVG and PNG."""

import io
import re
import textwrap
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from xml.etree import ElementTree

import matplotlib
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from latent_domains.common.files import write_aside
from latent_domains.report.palette import STYLE, VARIABLES
from latent_domains.report.text import identifier, printable, shortened

POINTS = 72
"""In an inch."""

_LETTER = 6.5
"""Width of a title's letter in points."""

_LABEL, _SAMPLE = 5, 45
"""Width of a letter of the legend, and of the line and the space beside its words, in points."""

_SVG, _XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
_COLOUR = re.compile("|".join(VARIABLES))


@dataclass(frozen=True)
class Chart:
    """A picture of numbers. ``draw`` fills one pair of axes; ``width`` and ``height`` are in points.

    ``name`` is that of its files, ``title`` stands above it, ``caption`` below, ``alt`` says in words what is to be
    seen. In files the lines are named by a legend; on the page they have one in common.
    """

    name: str
    title: str
    alt: str
    draw: Callable[[Axes], None]
    width: float = 300
    height: float = 210
    caption: str = ""

    @property
    def ident(self) -> str:
        """``name`` as an element's id and a file's name: names of folders and domains may hold anything."""
        return identifier(self.name)

    def inline(self) -> Markup:
        """The chart as an SVG element: its colours are CSS variables, its ids no other chart's, its text is text."""
        file = io.StringIO()
        with _style(self.ident):
            figure = _figure([self], 1, titled=False)
            figure.patch.set_alpha(0)
            FigureCanvasSVG(figure).print_svg(file, metadata={"Date": None, "Creator": None})
        root = ElementTree.fromstring(file.getvalue())  # noqa: S314  our own
        _tidy(root)
        for key in ("width", "height"):
            del root.attrib[key]
        root.set("role", "img")
        root.set("aria-labelledby", f"{self.ident}-title")
        root.set("aria-describedby", f"{self.ident}-alt")
        for place, (tag, text) in enumerate((("title", self.title), ("desc", self.alt))):
            element = ElementTree.Element(f"{{{_SVG}}}{tag}", {"id": f"{self.ident}-{'alt' if place else 'title'}"})
            element.text = printable(text)
            root.insert(place, element)
        ElementTree.register_namespace("", _SVG)
        ElementTree.register_namespace("xlink", _XLINK)
        return Markup(ElementTree.tostring(root, encoding="unicode"))  # noqa: S704  serialised, so escaped

    def save(self, folder: Path) -> tuple[Path, Path]:
        """Write IDENT.svg and IDENT.png into ``folder``, in the light colours; return both."""
        svg, png = folder / f"{self.ident}.svg", folder / f"{self.ident}.png"
        with _style(self.ident), write_aside(svg) as aside, aside.open("w", encoding="utf-8") as file:
            figure = _figure([self], 1, titled=True)
            FigureCanvasSVG(figure).print_svg(file, metadata={"Date": None, "Creator": None})
        save_together(png, [self])
        return svg, png


def save_together(path: Path, charts: Sequence[Chart], columns: int | None = None) -> None:
    """Write charts side by side, ``columns`` in a row (all), as one PNG with their titles and one legend."""
    with _style(path.name), write_aside(path) as aside, aside.open("wb") as file:
        figure = _figure(charts, min(columns or len(charts), len(charts)), titled=True)
        figure.set_dpi(160)
        FigureCanvasAgg(figure).print_png(file, metadata={"Software": None})


@contextmanager
def _style(name: str) -> Iterator[None]:
    """Matplotlib's settings; ``name`` makes the ids of a chart its own. A letter that its font lacks is no warning.

    (The page shows it all the same, in the reader's fonts.)
    """
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": name}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        yield


def _figure(charts: Sequence[Chart], columns: int, *, titled: bool) -> Figure:
    """The charts drawn in a grid; with ``titled``, each under its title and all above a legend of their lines."""
    rows = [charts[i : i + columns] for i in range(0, len(charts), columns)]
    width = max(sum(chart.width for chart in row) for row in rows)
    heights = [max(chart.height for chart in row) for row in rows]
    figure = Figure(figsize=(width / POINTS, sum(heights) / POINTS), layout="constrained")
    figure.get_layout_engine().set(w_pad=5 / POINTS, h_pad=5 / POINTS)
    grid = figure.subplots(
        len(rows), columns, squeeze=False, height_ratios=heights, width_ratios=[chart.width for chart in rows[0]]
    )
    legend = {}
    for axes, chart in zip_longest(grid.flat, charts):
        if chart is None:
            axes.axis("off")
            continue
        chart.draw(axes)
        if titled:
            found = zip(*axes.get_legend_handles_labels(), strict=True)
            legend |= {label: line for line, label in found if label not in legend}
    if legend:
        labels = [shortened(label, int((width - _SAMPLE) / _LABEL)) for label in legend]
        across = max(1, int(width / (_SAMPLE + _LABEL * max(map(len, labels)))))
        figure.set_figheight(figure.get_figheight() + 15 * -(-len(labels) // across) / POINTS)
        figure.legend(legend.values(), labels, loc="outside lower center", ncols=across, fontsize=9)
    if titled:
        figure.draw_without_rendering()  # what stands beside the axes decides how wide they are
        for axes, chart in zip(grid.flat, charts, strict=False):
            of_axes = axes.get_window_extent().width * POINTS / figure.dpi
            axes.set_title(textwrap.fill(printable(chart.title), int(of_axes / _LETTER)), loc="left")
    return figure


def _tidy(root: ElementTree.Element) -> None:
    """Drop what a page has no use for: matplotlib's metadata, styles and fonts, and ids that nothing refers to."""
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag == f"{{{_SVG}}}metadata" or (child.tag == f"{{{_SVG}}}defs" and _holds_style(child)):
                parent.remove(child)
    text = ElementTree.tostring(root, encoding="unicode")
    referred = set(re.findall(r"#([\w-]+)", text))
    for element in root.iter():
        if element.get("id") not in referred:
            element.attrib.pop("id", None)
        if style := element.get("style"):
            style = re.sub(r"; font-family:[^;]*", "", style)
            element.set("style", _COLOUR.sub(lambda found: VARIABLES[found[0]], style))
        for key in ("d", "x", "y", "transform"):
            if value := element.get(key):
                element.set(key, _shorter(value))


def _holds_style(element: ElementTree.Element) -> bool:
    return any(child.tag == f"{{{_SVG}}}style" for child in element)


def _shorter(numbers: str) -> str:
    """Coordinates with two decimals and single spaces."""
    return re.sub(r"\s+", " ", re.sub(r"\d+\.\d{3,}", lambda found: f"{float(found[0]):.2f}", numbers)).strip()
