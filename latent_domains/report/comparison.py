"""Group runs that differ only in their seed, and find the paper's number for each group."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from latent_domains.common.program import ProgramError
from latent_domains.experiment.baselines import BASELINES, ON_A_RUN
from latent_domains.experiment.experiment import Experiment
from latent_domains.experiment.methods import METHODS
from latent_domains.report.chart import COLOURS, DASHES, MARKS, Dashes
from latent_domains.report.runs import LoadedRun
from latent_domains.runs.record import Record
from latent_domains.tables.definition import Cell, Row, Table
from latent_domains.tables.records import part_of_variant
from latent_domains.tables.results import OverSeeds, best_of

CITED = "cited"
"""Replaces a method: the row has only numbers that the paper cites."""


@dataclass(frozen=True)
class Line(OverSeeds):
    """A method in one task: its runs, one for each seed, and the paper's accuracy (%, None if it has none).

    ``scores`` are the accuracies (%) of the finished runs, or of a shallow baseline. A row that the paper cites has no
    scores. ``number`` counts the lines of one method in a task, and so chooses dashes and mark.
    """

    name: str
    method: str
    runs: tuple[LoadedRun, ...] = ()
    scores: tuple[float, ...] = ()
    paper: float | None = None
    number: int = 0

    @property
    def colour(self) -> str:
        method = METHODS.get(self.method)
        return method.colour if method else COLOURS.get(self.method, COLOURS["muted"])

    @property
    def dashes(self) -> Dashes:
        return DASHES[self.number % len(DASHES)]

    @property
    def mark(self) -> str:
        return MARKS[self.number % len(MARKS)]


def _scores_of(runs: Sequence[LoadedRun]) -> tuple[float, ...]:
    """Return accuracies in % of the finished runs whose targets have labels."""
    return tuple(100 * run.record.accuracy for run in runs if run.record and run.record.accuracy is not None)


@dataclass(frozen=True)
class ComparedTask:
    """Lines with the same dataset and targets; ``targets`` are those that have labels. A table's column is a task."""

    name: str
    targets: tuple[str, ...]
    lines: tuple[Line, ...]

    @property
    def runs(self) -> list[LoadedRun]:
        """All runs, each once."""
        return list({id(run): run for line in self.lines for run in line.runs}.values())

    @property
    def changed_lmdbs(self) -> list[str]:
        """The LMDBs in which runs of one seed read different records. (Each seed may have LMDBs of its own.)"""
        found: dict[tuple[int, str], set[str]] = {}
        for run in self.runs:
            known = (run.record and run.record.training and run.record.training.lmdbs) or {}
            for name, contents in known.items():
                found.setdefault((run.experiment.seed, name), set()).add(contents)
        changed = {name for (_, name), contents in found.items() if len(contents) > 1}
        return sorted(name for name in changed if not name.startswith("domain_labels/"))  # each run has its own


def group_runs(runs: Sequence[LoadedRun], baselines: Mapping[str, Record] | None = None) -> list[ComparedTask]:
    """Group runs that are in no table: a task for each dataset and its targets, in it a line for each method.

    Nets on images and nets on features of the same images are in one task; their names say which they are. Each shallow
    baseline has a line with its name. Refuses a baseline without a run on its data, and two runs of one experiment.
    """
    _index_by_experiment(runs)
    found: dict[tuple[str, tuple[str, ...]], list[LoadedRun]] = {}
    for run in runs:
        found.setdefault((run.experiment.data.images, run.experiment.targets), []).append(run)
    images = {run.experiment.dataset: run.experiment.data.images for run in runs}
    shallow: dict[tuple[str, tuple[str, ...]], list[Line]] = {}
    for name, record in (baselines or {}).items():
        method, titles = record.baseline.get("method"), BASELINES | ON_A_RUN
        key = (images.get(record.baseline.get("dataset")), tuple(record.baseline.get("targets", ())))
        if key not in found or method not in titles:
            raise ProgramError(
                f"{name}: found a shallow baseline alone, expected its table, too (--table), or a run on the same data"
            )
        shallow.setdefault(key, []).append(Line(titles[method], method, scores=(100 * record.accuracy,)))
    return [_task(of_task, shallow.get(key, [])) for key, of_task in found.items()]


def _numbered(lines: Iterable[Line]) -> tuple[Line, ...]:
    counts: Counter[str] = Counter()
    numbered = []
    for line in lines:
        numbered.append(replace(line, number=counts[line.method]))
        counts[line.method] += 1
    return tuple(numbered)


def _task(runs: Sequence[LoadedRun], shallow: Sequence[Line]) -> ComparedTask:
    """Make a line for each method, with a unique name that shows the differences. ``shallow`` are further lines."""
    groups: dict[Experiment, list[LoadedRun]] = {}
    for run in runs:
        groups.setdefault(replace(run.experiment, seed=0), []).append(run)
    experiments = sorted(groups, key=_in_tables_order)
    sources = {experiment.sources for experiment in experiments}
    several_learners = len({experiment.data.learner for experiment in experiments}) > 1
    names = []
    for experiment in experiments:
        name = experiment.title + (f" on {experiment.data.learner}" if several_learners else "")
        names.append(name + (f", from {'+'.join(experiment.sources)}" if len(sources) > 1 else ""))
    lines: list[Line] = []
    for experiment, name in zip(experiments, names, strict=True):
        unique = name if names.count(name) == 1 else f"{name} ({experiment.name.removesuffix('_seed0')})"
        group = tuple(groups[experiment])
        lines.append(Line(unique, experiment.method.name, group, _scores_of(group)))
    experiment = runs[0].experiment
    shared = "+".join(*sources) if len(sources) == 1 else "several sources"
    name, tested = f"{shared} → {'+'.join(experiment.targets)}", tuple(experiment.task.tests.values())
    return ComparedTask(name, tested, _numbered([*lines, *shallow]))


def _index_by_experiment(runs: Sequence[LoadedRun]) -> dict[Experiment, LoadedRun]:
    """Return the runs by experiment. Refuses two runs of one experiment."""
    found: dict[Experiment, LoadedRun] = {}
    for run in runs:
        if (first := found.setdefault(run.experiment, run)) is not run:
            raise ProgramError(f"{run.path}: the same experiment as {first.path}, expected one of them")
    return found


def _in_tables_order(experiment: Experiment) -> tuple:
    """Return the position in the paper's tables: by method, then by k, then by which domains are known."""
    said = experiment.settings.get
    method = list(METHODS).index(experiment.method.name)
    return method, experiment.k, said("known_share", 0), said("lambda_b", 0), experiment.name


def group_runs_of_table(table: Table, runs: Sequence[LoadedRun], baselines: Mapping[str, Record]) -> list[ComparedTask]:
    """Return the table's columns, with the given runs. Each candidate of a row is a line of its own.

    ``baselines`` are the shallow ones' records by name. The paper's number of a "best single source" goes with the
    candidate that has the best mean; while a candidate has no accuracy, it has its own line. Refuses a run that is not
    in the table, or is given twice.
    """
    names = {run.name for run in table.runs}
    for run in runs:
        if run.experiment not in table.runs:
            raise ProgramError(
                f"{run.path}: its experiment ({run.experiment.name}) does not belong to the table ({table.name}): "
                "leave it out, or report on it without --table"
            )
    for name in baselines:
        if name not in names:
            raise ProgramError(f"{name}: the table {table.name} has no such baseline, expected some of its runs")
    given = _index_by_experiment(runs)
    tasks = []
    for number, column in enumerate(table.columns):
        lines = [line for row in table.rows for line in _lines_of_row(row, row.cells[number], given, baselines)]
        labelled = tuple(target for target in column.targets if target not in table.data.unlabelled)
        tasks.append(ComparedTask(column.name, labelled, _numbered(lines)))
    return tasks


def _lines_of_row(
    row: Row, cell: Cell, given: Mapping[Experiment, LoadedRun], baselines: Mapping[str, Record]
) -> list[Line]:
    if not cell.candidates:
        return [Line(row.name, CITED, paper=cell.paper)]
    lines = []
    for candidate in cell.candidates:
        name = row.name if len(cell.candidates) == 1 else f"{row.name}: {'+'.join(candidate.sources)}"
        first = candidate.runs[0]
        method = first.method.name if isinstance(first, Experiment) else first.method
        runs = tuple(given[run] for run in candidate.runs if isinstance(run, Experiment) and run in given)
        scores = tuple(
            100 * meant.accuracy
            for run in candidate.distinct
            if run.name in baselines and (meant := part_of_variant(run, baselines[run.name]))
        )
        lines.append(Line(name, method, runs, scores or _scores_of(runs)))
    if len(lines) > 1 and not all(line.scores for line in lines):
        # The best is unknown until every candidate has an accuracy.
        whole_row = Line(row.name, lines[0].method, paper=cell.paper)
        return [whole_row, *(lines if any(line.runs or line.scores for line in lines) else ())]
    best = best_of(lines)
    return [replace(line, paper=cell.paper) if line is best else line for line in lines]
