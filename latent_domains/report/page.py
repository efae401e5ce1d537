"""The page: sections of texts, charts, pictures and tables, put into one HTML file by a template."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from latent_domains.common.program import ROOT, ProgramError
from latent_domains.report.chart import Chart
from latent_domains.report.legend import Key
from latent_domains.report.palette import COLOURS
from latent_domains.report.text import printable

_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Text:
    """A paragraph; with ``note``, one that says what is missing and how to get it."""

    text: str
    note: bool = False
    kind: str = "text"


@dataclass(frozen=True)
class Heading:
    """Within a section."""

    text: str
    kind: str = "heading"


@dataclass(frozen=True)
class Charts:
    """Charts that belong together, with a caption and a legend of what they have in common."""

    charts: Sequence[Chart]
    caption: str
    legend: Sequence[Key] = ()
    kind: str = "charts"

    @property
    def columns(self) -> int:
        """Charts in a row where there is room: four make two rows of two."""
        wide = max(chart.width for chart in self.charts) > 350
        return 2 if wide or len(self.charts) in (1, 2, 4) else 3


@dataclass(frozen=True)
class Strip:
    """A row of pictures in one WebP file."""

    title: str
    alt: str
    webp: bytes
    caption: str

    @property
    def source(self) -> str:
        return "data:image/webp;base64," + base64.b64encode(self.webp).decode()


@dataclass(frozen=True)
class Strips:
    """Rows of pictures that belong together; ``name`` is that of their file."""

    name: str
    strips: Sequence[Strip]
    caption: str
    kind: str = "strips"


@dataclass(frozen=True)
class TableBlock:
    """A table; columns whose header begins with "#" hold numbers. Its first column names the rows."""

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    kind: str = "table"


def missing(what: str, error: ProgramError) -> Text:
    """Why something cannot be shown; files of the repository are named as from its root."""
    return Text(f"{what}: {str(error).replace(f'{ROOT}/', '')}.", note=True)


Block = Text | Heading | Charts | Strips | TableBlock


@dataclass(frozen=True)
class Section:
    """``ident`` is what links to it."""

    ident: str
    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Page:
    """A whole report."""

    title: str
    lead: Sequence[str]
    sections: Sequence[Section]
    made: str

    @property
    def charts(self) -> list[Chart]:
        """All charts, in order."""
        blocks = [block for section in self.sections for block in section.blocks]
        return [chart for block in blocks if isinstance(block, Charts) for chart in block.charts]

    def html(self) -> str:
        """The page in one piece: nothing in it is loaded from elsewhere."""
        environment = Environment(
            loader=FileSystemLoader(_FOLDER),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        style = (_FOLDER / "style.css").read_text()
        variables = [
            "".join(f"--{name.replace('_', '-')}:{pair[dark]};" for name, pair in COLOURS.items())
            for dark in (False, True)
        ]
        style = style.replace("/*light*/", variables[0]).replace("/*dark*/", variables[1])
        template = environment.get_template("page.html.jinja")
        return printable(template.render(page=self, style=Markup(style)))  # noqa: S704  our own file
