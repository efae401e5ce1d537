"""Figures of kept tables: what a row's records say in one column, or on the mean of the columns, as a text.

A template is a text with figures in braces, ``{accuracy} ({class mean})``; ``{accuracy:2}`` has two decimals. In one
column each of these figures has a value for each seed. On the mean of several columns the first two have that, too; the
others have a value for each column:

    accuracy, class mean        in %
    largest share               in %, of the images in the largest latent domain
    purity, NMI                 of latent and true domains
    NMI with classes            of latent domains and classes
    target NMI                  of latent and true targets; ``target NMI with classes``
    recall of CLASS             in %

``{purity}`` is their mean, ``{purity of seeds}`` lists them, ``{purity range}`` is the least to the most of them.
Further figures:

    n, paper                    number of seeds; the paper's accuracy
    accuracy ±                  mean and standard deviation
    images in N                 how many of each source are in latent domain N, of one run
    less ROW                    difference from a row and its 95 % interval, in points, paired by seed
    interval from ROW           the interval alone
    gain over ROW               the difference alone; ROW may be ``the paper``
    points above ROW            the same without a sign, likewise ``points below ROW``: an error if it is not so
    resolvable from ROW         the true difference that is found with a probability of 0.8

The last six go ``over targets`` if these words follow, with the columns in the place of seeds; and they compare class
means, or the paper's accuracies, if ``class mean`` or ``paper`` stands before. ROW may be that of another table with
the same columns, as ``NAME/ROW``; without ROW it is the row that the place names.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from statistics import fmean

import numpy as np

from latent_domains.common.program import ROOT, ProgramError
from latent_domains.runs.record import DomainUsage, Record
from latent_domains.tables.definition import EXPERIMENTS, Table, load
from latent_domains.tables.markdown import signed
from latent_domains.tables.records import Records
from latent_domains.tables.results import Result, RowResults, are_single_runs, over_columns, paired_difference, results

RESULTS = ROOT / "results"
"""Folder of the kept records."""

MEAN = "mean"
"""The place of the mean over a table's columns."""

ACCURACY, CLASS_MEAN, PAPER = "accuracy", "class mean", "paper"

_FIGURE = re.compile(r"\{([^{}:]+)(?::(\d))?\}")
_SPREAD = re.compile(r"(.+?)( of seeds| range|)")
_IMAGES = re.compile(r"images in (\d)")
_RECALL = "recall of "
_COMPARED = re.compile(
    rf"(?:({CLASS_MEAN}|{PAPER}) )?"
    r"(less|interval from|resolvable from|gain over|points above|points below)(?: (.+?))??( over targets)?"
)
_USAGE: Mapping[str, Callable[[DomainUsage], float | None]] = {
    "largest share": lambda usage: 100 * max(usage.share),
    "purity": lambda usage: usage.purity if usage.has_true_domains else None,
    "NMI": lambda usage: usage.nmi if usage.has_true_domains else None,
    "NMI with classes": lambda usage: usage.nmi_classes,
}


@dataclass(frozen=True)
class Kept:
    """A table, of the records that are kept in ``folder``."""

    table: Table
    folder: Path

    @classmethod
    @cache
    def load(cls, folder: Path, seeds: tuple[int, ...] | None = None, definition: str | None = None) -> "Kept":
        """Load the table of experiments/ that ``folder`` or ``definition`` names, of these seeds (None: all it has)."""
        if not folder.is_dir():
            raise ProgramError(f"{folder}: no such folder, expected one of kept records")
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
        """Find a row by its name, of this table or, as NAME/ROW, of the one in results/NAME."""
        folder, found, of_other = name.partition("/")
        if found and name not in self.rows:
            other = Kept.load(RESULTS / folder)
            if other.columns != self.columns:
                raise ProgramError(f"{name}: found other columns than those of {self.table.name}, expected the same")
            return other.row(of_other)
        if name not in self.rows:
            raise ProgramError(f"{self.table.name}: found row {name!r}, expected one of {'; '.join(self.rows)}")
        return self.rows[name]


@dataclass(frozen=True)
class Place:
    """A row of a kept table in one column (None: on the mean of the columns).

    ``reference`` is the row that a comparison without ROW is with.
    """

    kept: Kept
    row: RowResults
    column: int | None
    reference: RowResults | None = None

    @property
    def of_columns(self) -> bool:
        """Say whether it is the mean of several columns."""
        return self.column is None and len(self.row.cells) > 1

    @property
    def result(self) -> Result:
        found = self.row.mean if self.of_columns else self.row.cells[self.column or 0]
        if found is None:
            raise ProgramError(f"{self.row.row.name}: found a cited row, expected one of ours")
        return found

    @property
    def paper(self) -> float | None:
        """The paper's accuracy; its mean of several columns is that which it prints."""
        return self.row.row.paper.mean if self.of_columns else self.row.row.cells[self.column or 0].paper

    def columns(self) -> list["Place"]:
        """List the places of the row, one for each column."""
        return [Place(self.kept, self.row, column, self.reference) for column in range(len(self.row.cells))]

    def records(self) -> list[Record]:
        """List those of a column, one for each seed; none of a best single source, which has several for each."""
        candidates = self.row.row.cells[self.column or 0].candidates
        found = map(self.kept.records.read, candidates[0].distinct if len(candidates) == 1 else ())
        return [record for record in found if record is not None]

    def values(self, name: str) -> list[float]:
        """List a figure's numbers, as the module says; none if the row has not got it."""
        if name in (ACCURACY, CLASS_MEAN):
            return list(_by_seed(self, name).values())
        if self.of_columns:
            return [fmean(values) for place in self.columns() if (values := place.values(name))]
        found = map(_of_record(name), self.records())
        return [value for value in found if value is not None]

    def text(self, template: str) -> str | None:
        """Fill a template. None if a figure is not there; raises ProgramError for an unknown one."""
        missing = False

        def figure(match: re.Match) -> str:
            nonlocal missing
            found = _figure(self, match[1], match[2] and int(match[2]))
            missing |= found is None
            return found or ""

        text = _FIGURE.sub(figure, template)
        return None if missing else text


def span(values: Sequence[float], decimals: int) -> str:
    """Write the least to the most of some values."""
    return f"{min(values):.{decimals}f} to {max(values):.{decimals}f}"


def _figure(place: Place, name: str, decimals: int | None) -> str | None:
    """Write a figure; None if it is not there."""
    if name == PAPER:
        return None if place.paper is None else f"{place.paper:.{1 if decimals is None else decimals}f}"
    if name == "n":
        return str(place.result.n)
    if name == f"{ACCURACY} ±":
        return place.result.in_words() if place.result.n else None
    if found := _IMAGES.fullmatch(name):
        return _images(place, int(found[1]))
    if found := _COMPARED.fullmatch(name):
        return _compared(place, decimals, *found.groups())
    name, spread = _SPREAD.fullmatch(name).groups()
    values = place.values(name)
    if decimals is None:
        decimals = 0 if name.startswith(_RECALL) else 1 if name in (ACCURACY, CLASS_MEAN, "largest share") else 2
    if not values:
        return None
    if spread == " range":
        return span(values, decimals)
    return " ".join(f"{value:.{decimals}f}" for value in (values if spread else [fmean(values)]))


def _of_record(name: str) -> Callable[[Record], float | None]:
    """What takes a figure out of a run's record."""
    if name.startswith(_RECALL):
        return lambda record: _recall(record, name.removeprefix(_RECALL))
    take = _USAGE.get(name.removeprefix("target "))
    if take is None:
        known = ", ".join((ACCURACY, CLASS_MEAN, *_USAGE))
        raise ProgramError(f"found {{{name}}}, expected {known} or another figure that {__name__} lists")

    def found(record: Record) -> float | None:
        usage = record.target_domain_usage if name.startswith("target ") else record.domain_usage
        return None if usage is None else take(usage)

    return found


def _recall(record: Record, name: str) -> float:
    """The share of a class's test images that are called so, in %."""
    if name not in (classes := record.classes or []):
        raise ProgramError(f"{_RECALL}{name}: found no such class, expected one of {', '.join(classes)}")
    number = classes.index(name)
    row = np.sum([found.confusion for found in record.targets.values()], axis=0)[number]
    return float(100 * row[number] / row.sum())


def _images(place: Place, domain: int) -> str | None:
    usages = [record.domain_usage for record in place.records() if record.domain_usage]
    if place.of_columns or len(usages) > 1:
        raise ProgramError(f"{place.row.row.name}: images in {domain}: found several runs, expected one")
    return ", ".join(str(counts[domain - 1]) for counts in usages[0].counts) if usages else None


def _by_seed(place: Place, measure: str) -> Mapping[int, float]:
    return place.result.class_means if measure == CLASS_MEAN else place.result.accuracies


def _series(place: Place, measure: str, *, over_targets: bool) -> Mapping[int, float]:
    """What a comparison is made of: numbers by seed or, of the paper or over targets, by column."""
    if not over_targets and measure != PAPER:
        return _by_seed(place, measure)
    values = over_columns(place.row, measure)
    if place.of_columns or over_targets:
        return values
    column = place.column or 0
    return {column: values[column]} if column in values else {}


def _compared(
    place: Place, decimals: int | None, measure: str | None, kind: str, row: str | None, over_targets: str | None
) -> str | None:
    """Write a difference from another row, or from the paper's number of the row; None if one of them is not there."""
    decimals = 1 if decimals is None else decimals
    if row == "the paper":
        gain = None if place.paper is None or not place.result.n else place.result.mean - place.paper
        return None if gain is None else _gain(gain, kind, row, decimals)
    other = place.kept.row(row) if row else place.reference
    if other is None or other is place.row:
        return None
    rows = [place, Place(place.kept, other, place.column)]
    series = [_series(each, measure or ACCURACY, over_targets=bool(over_targets)) for each in rows]
    if not all(series):
        return None
    if kind in ("gain over", "points above", "points below"):
        first, second = (fmean(each.values()) for each in series)
        return _gain(first - second, kind, other.row.name, decimals)
    by_seed = not over_targets and measure != PAPER
    if by_seed and are_single_runs(*(each.result for each in rows)):
        return None
    if (found := paired_difference(*series)) is None:
        return None
    if kind == "resolvable from":
        return f"{found.resolvable:.{decimals}f}"
    interval = f"{signed(found.low, 2)} to {signed(found.high, 2)}"
    return interval if kind == "interval from" else f"{signed(found.mean, 2)} ({interval})"


def _gain(gain: float, kind: str, row: str, decimals: int) -> str:
    """Write a difference with its sign, or without one where words say it. Raises ProgramError if these are wrong."""
    if kind == "gain over":
        return signed(gain, decimals)
    points = gain if kind == "points above" else -gain
    if points < 0:
        raise ProgramError(f"{kind} {row}: found {signed(gain, decimals)} points, expected words that say so")
    return f"{points:.{decimals}f}"
