"""A table's numbers: mean and standard deviation over seeds, the best single source, means, paired differences."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import sqrt
from statistics import fmean, stdev
from typing import NamedTuple, TypeVar

from latent_domains.runs.record import DomainUsage
from latent_domains.tables.definition import Candidate, Cell, Row, Table
from latent_domains.tables.records import Records, part_of_variant

NOTHING = "–"
"""Shown in place of a missing number."""


class _OfDomains(NamedTuple):
    """A column about latent domains: its format, and how to compute it from a run's domain usage."""

    form: str
    take: Callable[[DomainUsage], float]


DOMAINS = {
    "largest share": _OfDomains(".1f", lambda usage: 100 * max(usage.share)),
    "purity": _OfDomains(".3f", lambda usage: usage.purity),
    "NMI": _OfDomains(".3f", lambda usage: usage.nmi),
}
"""Columns about latent domains; the share is in %."""


CLASS_MEAN = "class mean"
"""The column for the accuracy with equal weight for every class, in tables of pictures."""


class OverSeeds:
    """Mean and standard deviation of ``scores``, an accuracy in % for each seed."""

    scores: Collection[float]

    @property
    def n(self) -> int:
        return len(self.scores)

    @property
    def mean(self) -> float | None:
        """The mean; None without scores."""
        return fmean(self.scores) if self.scores else None

    @property
    def std(self) -> float | None:
        """The deviation of the sample (n - 1); None for fewer than two scores."""
        return stdev(self.scores) if self.n > 1 else None

    def in_words(self) -> str:
        """Format as ``81.0 ± 1.5``, with two decimals if the deviation would be 0.0."""
        if self.mean is None:
            return NOTHING
        if self.std is None:
            return f"{self.mean:.1f}"
        if self.std < 0.005:
            return f"{self.mean:.2f} ± 0"
        decimals = 2 if self.std < 0.05 else 1
        return f"{self.mean:.{decimals}f} ± {self.std:.{decimals}f}"


Scored = TypeVar("Scored", bound=OverSeeds)


def best_of(candidates: Sequence[Scored]) -> Scored:
    """Return the candidate with the best mean, the first of several; one without a number comes last."""
    return max(candidates, key=lambda one: -1.0 if one.mean is None else one.mean)


@dataclass(frozen=True)
class Result(OverSeeds):
    """Accuracies in % by seed; there should be ``wanted``, and ``reasons`` explain missing ones.

    ``sources`` are the domains that a candidate was trained on. ``candidates`` are those of a best single source;
    ``remarks`` are for readers of the numbers. ``usages`` are those of the latent domains, one per run. ``class_means``
    are the accuracies with equal weight for every class, of the records that have them. ``seedless``: the one number of
    a method without random numbers, which is used for every seed and counts once.
    """

    accuracies: Mapping[int, float]
    wanted: int
    reasons: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    candidates: tuple["Result", ...] = field(default=())
    usages: tuple[DomainUsage, ...] = ()
    seedless: bool = False
    class_means: Mapping[int, float] = field(default_factory=dict)

    @property
    def class_mean(self) -> float | None:
        """The mean over seeds; None if a record lacks it."""
        complete = self.n and self.class_means.keys() == self.accuracies.keys()
        return fmean(self.class_means.values()) if complete else None

    def domain_values(self, name: str) -> list[float]:
        """Return one of DOMAINS for each run; a single true source has no purity and no NMI."""
        known = [usage for usage in self.usages if name == "largest share" or usage.has_true_domains]
        return [DOMAINS[name].take(usage) for usage in known]

    @property
    def domains(self) -> dict[str, float]:
        """The mean over the runs of each existing value of DOMAINS."""
        return {name: fmean(values) for name in DOMAINS if (values := self.domain_values(name))}

    @property
    def scores(self) -> Collection[float]:
        return list(self.accuracies.values())[: 1 if self.seedless else None]

    @property
    def reason(self) -> str:
        """Why seeds are missing; empty if none is."""
        text = ("; " if self.candidates else ", ").join(self.reasons)
        return f"{self.n} of {self.wanted} seeds: {text}" if text and self.n and not self.candidates else text


@dataclass(frozen=True)
class RowResults:
    """A row's results by column, and their mean (None in a table of one column and in cited rows)."""

    row: Row
    cells: tuple[Result | None, ...]
    mean: Result | None

    @property
    def results(self) -> list[Result]:
        """The columns' results, then their mean."""
        return [result for result in (*self.cells, self.mean) if result is not None]


def results(table: Table, records: Records) -> list[RowResults]:
    """Return the results of all rows; those of cited rows are None."""
    found = []
    for row in table.rows:
        cells = tuple(_cell(cell, table, records) for cell in row.cells)
        mean = _mean(cells, table) if len(cells) > 1 and row.cited is None else None
        found.append(RowResults(row, cells, mean))
    return found


def recomputed_mean(row: Row) -> float | None:
    """Return the mean of the paper's own values in a row, None if it has none."""
    values = [cell.paper for cell in row.cells]
    return None if None in values else fmean(values)


def _cell(cell: Cell, table: Table, records: Records) -> Result | None:
    if not cell.candidates:
        return None
    found = [_candidate(candidate, table, records) for candidate in cell.candidates]
    if len(found) == 1:
        return found[0]
    if missing := [candidate for candidate in found if candidate.mean is None]:
        # The best is not known before every candidate has been tried.
        reasons = tuple(f"{'+'.join(candidate.sources)} alone: {candidate.reason}" for candidate in missing)
        return Result({}, len(table.seeds), reasons, candidates=tuple(found))
    best = best_of(found)
    reasons = tuple(f"{'+'.join(one.sources)} alone: {one.reason}" for one in found if one.reason)
    return replace(best, reasons=reasons, candidates=tuple(found))


def _candidate(candidate: Candidate, table: Table, records: Records) -> Result:
    accuracies: dict[int, float] = {}
    class_means: dict[int, float] = {}
    why: dict[str, list[int]] = {}
    remarks: dict[str, None] = {}
    usages: list[DomainUsage] = []
    for seed, run in zip(table.seeds, candidate.runs, strict=True):
        record, why_none = records.find(run)
        if record is None:
            why.setdefault(why_none, []).append(seed)
            continue
        meant = part_of_variant(run, record)
        accuracies[seed] = 100 * meant.accuracy
        if meant.class_mean is not None:
            class_means[seed] = 100 * meant.class_mean
        remarks |= dict.fromkeys(records.remarks(run, record))
        usages += [record.domain_usage] if record.domain_usage else []
    reasons = tuple(f"{_seeds(seeds, table.seeds)} {text}".strip() for text, seeds in why.items())
    return Result(
        accuracies,
        len(table.seeds),
        reasons,
        tuple(remarks),
        candidate.sources,
        usages=tuple(usages),
        seedless=len(candidate.distinct) == 1,
        class_means=class_means,
    )


def _seeds(seeds: list[int], all_seeds: tuple[int, ...]) -> str:
    """Name the seeds of a reason; empty if it is true for all."""
    if len(seeds) == len(all_seeds):
        return ""
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"


def _mean(cells: tuple[Result | None, ...], table: Table) -> Result:
    """Average the columns seed by seed; all columns need the same seeds."""
    present = [cell for cell in cells if cell is not None and cell.n]
    if len(present) < len(cells):
        return Result({}, len(table.seeds), ("not all columns have a number",))
    seeds = set(present[0].accuracies)
    if any(set(cell.accuracies) != seeds for cell in present):
        return Result({}, len(table.seeds), ("the columns have different seeds so far",))
    means = {seed: fmean(cell.accuracies[seed] for cell in present) for seed in sorted(seeds)}
    known = [seed for seed in means if all(seed in cell.class_means for cell in present)]
    class_means = {seed: fmean(cell.class_means[seed] for cell in present) for seed in known}
    seedless = all(cell.seedless for cell in present)
    return Result(means, len(table.seeds), seedless=seedless, class_means=class_means)


CONFIDENCE, POWER = 0.95, 0.8


@dataclass(frozen=True)
class PairedDifference:
    """A row's accuracies minus the reference's, in points, over the ``n`` ≥ 2 seeds, or runs, that both have.

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
    return _paired(_by_seed(result, reference))


def difference_over_targets(row: RowResults, reference: RowResults) -> PairedDifference | None:
    """Compare two rows run by run, paired by column and seed.

    None if a column lacks a result, or if there are fewer than two pairs.
    """
    pairs = list(zip(row.cells, reference.cells, strict=True))
    if not all(ours and other and ours.n and other.n for ours, other in pairs):
        return None
    return _paired([found for pair in pairs for found in _by_seed(*pair)])


def _by_seed(result: Result, reference: Result) -> list[float]:
    """Return the differences (%) of the seeds that are in both; what is one run for all seeds counts once."""
    found = [
        value - reference.accuracies[seed] for seed, value in result.accuracies.items() if seed in reference.accuracies
    ]
    return found[: 1 if result.seedless and reference.seedless else None]


def _paired(differences: Sequence[float]) -> PairedDifference | None:
    """Compare by differences (%) of pairs; None if there are fewer than two."""
    from scipy.special import nctdtrinc, stdtrit  # slow to import: for tables with a reference alone

    n = len(differences)
    if n < 2:
        return None
    error = stdev(differences) / sqrt(n)
    sure = float(stdtrit(n - 1, (1 + CONFIDENCE) / 2))
    non_centrality = float(nctdtrinc(n - 1, 1 - POWER, sure))  # t below -sure has less than 1e-6
    return PairedDifference(n, fmean(differences), sure * error, non_centrality * error)
