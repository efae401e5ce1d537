"""Rows against a reference row: differences of accuracies seed by seed, as the runs of a seed belong together.

Or column by column, of rows with one seed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev

from latent_domains.tables.definition import Table
from latent_domains.tables.results import CLASS_MEAN, Result, RowResults

CONFIDENCE, POWER = 0.95, 0.8


@dataclass(frozen=True)
class PairedDifference:
    """A row's accuracies less the reference's, in points, of the ``n`` seeds or columns that both have (two at least).

    ``half`` is the half-width of the interval: Student's t for CONFIDENCE times s/√n, s the sample's deviation.
    ``resolvable`` is the true difference that a two-sided test at 1 - CONFIDENCE finds with POWER: δ·s/√n, where
    Student's t of non-centrality δ is above that of CONFIDENCE with the probability POWER.
    """

    n: int
    mean: float
    half: float
    resolvable: float

    @property
    def low(self) -> float:
        return self.mean - self.half

    @property
    def high(self) -> float:
        return self.mean + self.half


def differences(table: Table, rows: Sequence[RowResults]) -> dict[str, list[PairedDifference | None]]:
    """Compare each row with the reference: by row name, a difference for each column, then for the mean if it has one.

    Empty if the table names no reference; None where :func:`difference` is. Cited rows have no seeds.
    """
    if table.reference is None:
        return {}
    (reference,) = (row for row in rows if row.row.name == table.reference)
    pairs = {row.row.name: zip(row.results, reference.results, strict=True) for row in rows if row.row.cited is None}
    del pairs[table.reference]
    return {name: [difference(*pair) for pair in of_row] for name, of_row in pairs.items()}


def difference(result: Result, reference: Result) -> PairedDifference | None:
    """Compare two results seed by seed; None if fewer than two seeds are in both, or if each is a single run."""
    return None if are_single_runs(result, reference) else paired_difference(result.accuracies, reference.accuracies)


def are_single_runs(result: Result, reference: Result) -> bool:
    """Whether each is one run for all seeds: there is one difference, and its deviation over seeds would be 0."""
    return result.seedless and reference.seedless


def over_columns(row: RowResults, measure: str = "accuracy") -> dict[int, float]:
    """A number (%) for each column of a row, by the column's place: what is compared over targets in place of seeds.

    ``measure`` is accuracy, class mean (means over the seeds) or paper (the paper's accuracy). Empty if one is missing.
    """
    if measure == "paper":
        values = [cell.paper for cell in row.row.cells]
    else:
        values = [cell and (cell.class_mean if measure == CLASS_MEAN else cell.mean) for cell in row.cells]
    return {} if None in values else dict(enumerate(values))


def paired_difference(values: Mapping[int, float], reference: Mapping[int, float]) -> PairedDifference | None:
    """Compare numbers (%) that belong together by their keys; None if fewer than two keys are in both."""
    from scipy.special import nctdtrinc, stdtrit  # slow to import: for tables with a reference alone

    shared = values.keys() & reference.keys()
    differences = [values[key] - reference[key] for key in shared]
    n = len(differences)
    if n < 2:
        return None
    error = stdev(differences) / sqrt(n)
    sure = float(stdtrit(n - 1, (1 + CONFIDENCE) / 2))
    non_centrality = float(nctdtrinc(n - 1, 1 - POWER, sure))  # t below -sure has less than 1e-6
    return PairedDifference(n, fmean(differences), sure * error, non_centrality * error)
