"""Pages with tables of kept records: their cells, between two comments, are written by ``make pages``.

Each comment stands alone on a line. Heading and first cells are yours; the other cells are filled:

    <!-- from results/pacs: {accuracy} ({class mean}); {accuracy}; {less DIAL over targets} -->
    | seed 0 | Sketch | Photo | mean | less DIAL |
    | --- | --- | --- | --- | --- |
    | mDA | … | … | … | … |
    <!-- end -->

The first cell names a row; a comment in it, ``| ours <!-- mDA --> |``, names one that readers shall see otherwise. The
headings that are the table's columns share a template, each other heading has its own, which is on the mean of the
columns. If the marker names a column before its templates, all cells are of it. ``results/NAME`` and
``results/archive/NAME`` have the table experiments/NAME.yaml; ``results/NAME of OTHER`` has that of OTHER, and
``results/NAME, seeds 4 to 9`` is of these alone. What is not run is –, what a row does not have is blank.

A template is a text with figures in braces; ``{accuracy:2}`` has two decimals:

    accuracy, class mean        in %
    largest share               in %, of the images in the largest latent domain
    purity, NMI                 of latent and true domains
    recall of CLASS             in %
    n, paper                    number of seeds; the paper's accuracy
    accuracy ±                  mean and standard deviation
    less ROW                    difference from a row and its 95 % interval, in points, paired by seed
    less ROW over targets       the same, paired by the table's columns and by seed
    gain over ROW               the difference alone, also over targets; ROW may be ``the paper``

The first four are means over seeds or, on the mean of several columns, means over columns. ``{purity of seeds}`` lists
the values, ``{purity range}`` is the least to the most of them.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from statistics import fmean

import numpy as np

from latent_domains.common.program import ROOT, ProgramError
from latent_domains.runs.record import Record
from latent_domains.tables.definition import EXPERIMENTS, Table, load
from latent_domains.tables.markdown import signed
from latent_domains.tables.records import Records
from latent_domains.tables.results import (
    CLASS_MEAN,
    DOMAINS,
    NOTHING,
    Result,
    RowResults,
    difference,
    difference_over_targets,
    results,
)

RESULTS = ROOT / "results"
"""Folder of the kept records."""

MEAN = "mean"
"""The heading of the mean over a table's columns."""

_MARKER = re.compile(r"(<!--\s*from\s+results/([^:>]*):(.*?)-->\n)(.*?)(?=[ \t]*<!--\s*end\s*-->)", re.DOTALL)
_BEGIN = re.compile(r"<!--\s*from\s+results/")
_TABLE = re.compile(r"([\w/-]+)(?: of (\w+))?(?:, seeds (\d+) to (\d+))?")
_COMMENT = re.compile(r"<!--\s*(.*?)\s*-->")
_FIGURE = re.compile(r"\{([^{}:]+?)( of seeds| range)?(?::(\d))?\}")
_COMPARED = re.compile(r"(less|gain over) (.+?)( over targets)?")
_RECALL = "recall of "


@dataclass(frozen=True)
class KeptTable:
    """A table with the records that are kept in ``folder``."""

    table: Table
    folder: Path

    @classmethod
    @cache
    def load(cls, name: str) -> "KeptTable":
        """Load the table that a marker names: NAME, NAME of TABLE, or NAME, seeds N to N."""
        if not (found := _TABLE.fullmatch(name)):
            raise ProgramError(f"found 'from results/{name}', expected NAME, NAME of TABLE, or NAME, seeds N to N")
        place, definition, first, last = found.groups()
        if not (folder := RESULTS / place).is_dir():
            raise ProgramError(f"{folder}: no such folder, expected one of kept records")
        seeds = tuple(range(int(first), int(last) + 1)) if first else None
        return cls(load(EXPERIMENTS / f"{definition or folder.name}.yaml", seeds=seeds), folder)

    @cached_property
    def records(self) -> Records:
        return Records(self.folder, ROOT / "data", in_one_file=True)

    @cached_property
    def rows(self) -> dict[str, RowResults]:
        return {row.row.name: row for row in results(self.table, self.records)}

    @property
    def columns(self) -> list[str]:
        return [column.name for column in self.table.columns]

    def row(self, name: str) -> RowResults:
        """Find a row by its name."""
        if name not in self.rows:
            raise ProgramError(f"{self.table.name}: found row {name!r}, expected one of {'; '.join(self.rows)}")
        return self.rows[name]

    def text(self, row: str, column: str, template: str) -> str | None:
        """Fill a template for a row in a column, or on the MEAN. None if a figure is missing."""
        if column not in (*self.columns, MEAN):
            raise ProgramError(
                f"{self.table.name}: found column {column!r}, expected {', '.join(self.columns)}, {MEAN}"
            )
        place = _Place(self, self.row(row), self.columns.index(column) if column in self.columns else None)
        texts = [(found[0], place.figure(found[1], found[2], found[3])) for found in _FIGURE.finditer(template)]
        if None in (text for _, text in texts):
            return NOTHING if template == "{paper}" or not place.result.n else None
        for figure, text in texts:
            template = template.replace(figure, text, 1)
        return template


@dataclass(frozen=True)
class _Place:
    """A row of a kept table in one column (None: on the mean of the columns)."""

    kept: KeptTable
    row: RowResults
    column: int | None

    @property
    def of_columns(self) -> bool:
        """Whether it is the mean of several columns."""
        return self.column is None and len(self.row.cells) > 1

    @property
    def result(self) -> Result:
        found = self.row.mean if self.of_columns else self.row.cells[self.column or 0]
        if found is None:
            raise ProgramError(f"{self.row.row.name}: found a cited row, expected one of ours")
        return found

    @property
    def paper(self) -> float | None:
        """The paper's accuracy; for several columns the mean that it prints."""
        return self.row.row.paper.mean if self.of_columns else self.row.row.cells[self.column or 0].paper

    def figure(self, name: str, spread: str | None, decimals: str | None) -> str | None:
        """Write a figure; None if it is missing."""
        if name == "paper":
            return None if self.paper is None else f"{self.paper:.{decimals or 1}f}"
        if name == "n":
            return str(self.result.n)
        if name == "accuracy ±":
            return self.result.in_words() if self.result.n else None
        if found := _COMPARED.fullmatch(name):
            return self._compared(*found.groups(), decimals or "1")
        values, usual = self.values(name), 0 if name.startswith(_RECALL) else 2 if name in ("purity", "NMI") else 1
        texts = [f"{value:.{decimals or usual}f}" for value in (values if spread else values and [fmean(values)])]
        if spread == " range" and texts:
            return f"{min(texts, key=float)} to {max(texts, key=float)}"
        return " ".join(texts) or None

    def values(self, name: str) -> list[float]:
        """List a figure's numbers, as the module describes; none if the row lacks them."""
        if name in ("accuracy", CLASS_MEAN):
            return list((self.result.class_means if name == CLASS_MEAN else self.result.accuracies).values())
        if self.of_columns:
            places = (_Place(self.kept, self.row, column) for column in range(len(self.row.cells)))
            return [fmean(values) for place in places if (values := place.values(name))]
        if name in DOMAINS:
            return self.result.domain_values(name)
        if not name.startswith(_RECALL):
            raise ProgramError(f"found {{{name}}}, expected accuracy or another figure that {__name__} lists")
        candidates = self.row.row.cells[self.column or 0].candidates
        records = map(self.kept.records.read, candidates[0].distinct if len(candidates) == 1 else ())
        return [_recall(record, name.removeprefix(_RECALL)) for record in records if record is not None]

    def _compared(self, kind: str, name: str, over_targets: str | None, decimals: str) -> str | None:
        """Write a difference from another row, or from the paper; None if one is missing, "" for the row itself."""
        if (kind, name) == ("gain over", "the paper"):
            known = self.paper is not None and self.result.n
            return signed(self.result.mean - self.paper, int(decimals)) if known else None
        other = _Place(self.kept, self.kept.row(name), self.column)
        if other.row is self.row:
            return ""
        if kind == "gain over" and not over_targets:
            known = self.result.n and other.result.n
            return signed(self.result.mean - other.result.mean, int(decimals)) if known else None
        found = difference_over_targets(self.row, other.row) if over_targets else difference(self.result, other.result)
        if found is None:
            return None
        if kind == "gain over":
            return signed(found.mean, int(decimals))
        return f"{signed(found.mean, 2)} ({signed(found.low, 2)} to {signed(found.high, 2)})"


def _recall(record: Record, name: str) -> float:
    """Return the share of a class's test images that are predicted as it, in %."""
    if name not in (classes := record.classes or []):
        raise ProgramError(f"{_RECALL}{name}: found no such class, expected one of {', '.join(classes)}")
    row = np.sum([found.confusion for found in record.targets.values()], axis=0)[classes.index(name)]
    return float(100 * row[classes.index(name)] / row.sum())


def pages() -> list[Path]:
    """List the pages of docs/ and those of results/."""
    return [*sorted((ROOT / "docs").glob("*.md")), *sorted(RESULTS.rglob("*.md"))]


def filled(page: Path, load: Callable[[str], KeptTable] = KeptTable.load) -> str:
    """Return the text of a page with the figures of the records, from tables that ``load`` finds by a marker's name.

    Refuses a marker that cannot be read or filled; the error names page and line.
    """
    text = page.read_text(encoding="utf-8")
    begun, marked = len(_BEGIN.findall(text)), len(_MARKER.findall(text))
    if begun != marked:
        raise ProgramError(f"{page}: found {begun} markers 'from results/', {marked} of them of a table with an 'end'")

    def marker(match: re.Match[str]) -> str:
        head, name, arguments, body = match.groups()
        try:
            return head + _table(load(" ".join(name.split())), arguments, body)
        except ProgramError as error:
            line = text.count("\n", 0, match.start()) + 1
            raise ProgramError(f"{page}, line {line}: {error}") from error

    return _MARKER.sub(marker, text)


def _table(kept: KeptTable, arguments: str, body: str) -> str:
    """Fill the lines of a table below its heading."""
    templates = [" ".join(part.split()) for part in arguments.split(";")]
    column = None if "{" in templates[0] else templates.pop(0)
    lines = body.split("\n")
    numbers = [number for number, line in enumerate(lines) if line.lstrip().startswith("|")]
    if len(numbers) < 3 or not all("{" in template for template in templates):
        raise ProgramError(f"found {arguments.strip()!r}, expected templates with {{…}}, and a table below")
    headings = _cells(lines[numbers[0]])[1:]
    of_headings = list(_of_headings(headings, templates, kept.columns if column is None else []))
    for number in numbers[2:]:
        first = _cells(lines[number])[0]
        alias = _COMMENT.search(first)
        cells = [first]
        for heading, template in zip(headings, of_headings, strict=True):
            place = column or (heading if heading in kept.columns else MEAN)
            cells.append(kept.text(alias[1] if alias else first, place, template) or "")
        lines[number] = f"{lines[number].partition('|')[0]}| {' | '.join(cells)} |"
    return "\n".join(lines)


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def _of_headings(headings: Sequence[str], templates: Sequence[str], columns: Sequence[str]) -> Iterator[str]:
    """Give each heading its template: those that are columns share one."""
    shared = [heading for heading in headings if heading in columns]
    expected = len(headings) - len(shared) + bool(shared)
    if len(templates) != expected:
        raise ProgramError(f"found {len(templates)} templates, expected {expected}: {'; '.join(headings)}")
    remaining, of_columns = iter(templates), None
    for heading in headings:
        if heading in columns:
            of_columns = of_columns or next(remaining)
            yield of_columns
        else:
            yield next(remaining)
