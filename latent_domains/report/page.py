"""The page: a template makes one HTML file of sections with texts, charts and tables."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from latent_domains.common.program import ROOT, ProgramError
from latent_domains.report.chart import Chart, identifier, image, printable, save


@dataclass(frozen=True)
class Text:
    """A paragraph; with ``note``, one that says what is missing and how to get it."""

    text: str
    note: bool = False
    kind: str = "text"


@dataclass(frozen=True)
class Heading:
    """A heading within a section."""

    text: str
    kind: str = "heading"


@dataclass(frozen=True)
class Charts:
    """Charts that share a picture, a caption and a legend. ``name`` is the name of their files."""

    name: str
    charts: Sequence[Chart]
    caption: str = ""
    kind: str = "charts"

    @property
    def columns(self) -> int:
        """Charts in a row: four make two rows of two."""
        wide = max(chart.width for chart in self.charts) > 350
        return 2 if wide or len(self.charts) in (1, 2, 4) else 3

    @property
    def ident(self) -> str:
        """``name`` as an element's id and a file's name: names of folders and domains may have any characters."""
        return identifier(self.name)

    @property
    def source(self) -> str:
        """The picture, for the page."""
        return f"data:image/svg+xml;base64,{base64.b64encode(image(self.charts, self.columns)).decode()}"

    @property
    def alt(self) -> str:
        return " ".join(f"{chart.title}: {chart.alt.rstrip('.')}." for chart in self.charts)


@dataclass(frozen=True)
class TableBlock:
    """A table; columns whose header begins with "#" hold numbers. Its first column names the rows."""

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    kind: str = "table"


def missing(what: str, error: ProgramError) -> Text:
    """Return a note that says why something cannot be shown. Paths in the repository begin at its root."""
    return Text(f"{what}: {str(error).replace(f'{ROOT}/', '')}.", note=True)


Block = Text | Heading | Charts | TableBlock


@dataclass(frozen=True)
class Section:
    """A section; links to it use ``ident``."""

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
    def charts(self) -> list[Charts]:
        """All blocks of charts, in order."""
        return [block for section in self.sections for block in section.blocks if isinstance(block, Charts)]

    @property
    def notes(self) -> list[str]:
        """What is missing in the report, each note once."""
        texts = [block for section in self.sections for block in section.blocks if isinstance(block, Text)]
        return list(dict.fromkeys(text.text for text in texts if text.note))

    def html(self) -> str:
        """Return the page in one file that loads nothing."""
        environment = Environment(
            loader=FileSystemLoader(Path(__file__).parent),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        return printable(environment.get_template("page.html.jinja").render(page=self))


def check_figures(folder: Path | None) -> None:
    """Raise ProgramError if a file is at the place of a folder for figures."""
    if folder and folder.exists() and not folder.is_dir():
        raise ProgramError(f"{folder}: a file is there, expected a folder for figures")


def save_figures(page: Page, folder: Path) -> None:
    """Save all charts of a page in a folder, as SVG and PNG files."""
    for block in page.charts:
        for kind in ("svg", "png"):
            save(folder / f"{block.ident}.{kind}", block.charts, block.columns)
