"""Kept records and the pages that tell of them, for tests that compare the two."""

from dataclasses import replace

from latent_domains.common.program import ROOT
from latent_domains.tables.definition import Table
from latent_domains.tables.markdown import signed
from latent_domains.tables.paired import PairedDifference, difference
from latent_domains.tables.records import Records
from latent_domains.tables.results import Result, RowResults, results

RESULTS = ROOT / "results"


def cells(text: str) -> list[list[str]]:
    """The rows of the tables of a Markdown text, without the marks of footnotes."""
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    return [[cell.split(" [")[0].strip() for cell in row] for row in rows]


def of_records(table: Table, folder: str) -> list[RowResults]:
    """A table's rows, of the records that are kept in a folder."""
    return results(table, Records(RESULTS / folder, ROOT / "data", in_one_file=True))


def in_points(d: PairedDifference) -> str:
    """A difference and its interval as pages have them: ``+0.51 (+0.31 to +0.70)``."""
    return f"{signed(d.mean, 2)} ({signed(d.low, 2)} to {signed(d.high, 2)})"


def by_target(row: RowResults, *, class_means: bool = False) -> Result:
    """A row's accuracies, or their means over classes, with its columns in the place of seeds."""
    return replace(
        row.cells[0],
        accuracies=dict(enumerate(cell.class_mean if class_means else cell.mean for cell in row.cells)),
    )


def less(one: RowResults, other: RowResults, *, class_means: bool = False) -> PairedDifference:
    """A row's difference from another one over the four targets."""
    return difference(by_target(one, class_means=class_means), by_target(other, class_means=class_means))
