"""A table of the paper as data: its columns, its rows, the paper's numbers and the runs that each cell stands for.

``experiments/NAME.yaml`` defines a table; docs/extending.md has an example, and says what the keys are.

``best_single_source: true`` among ``runs`` trains on each source of a column alone. The cell is that of the source
whose mean accuracy on the target is best, which is how the paper defines these rows: it looks at target labels.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, make_dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Interval, MinLen
from pydantic import AfterValidator, Field

from latent_domains.common.program import ROOT, ProgramError
from latent_domains.common.validation import Natural, Positive, checked
from latent_domains.common.wording import one_line
from latent_domains.experiment.baselines import (
    BASELINES,
    CLASSIFIERS,
    KERNEL,
    NORMALISATIONS,
    SEEDLESS,
    VARIANTS,
)
from latent_domains.experiment.datasets import DATASETS, Dataset, chosen
from latent_domains.experiment.experiment import SETTINGS, Experiment, make_experiment
from latent_domains.experiment.networks import NETWORKS
from latent_domains.tables.strict_yaml import read_yaml

EXPERIMENTS = ROOT / "experiments"
"""Folder of the tables' definitions."""

_Text = Annotated[str, Field(pattern=r"\S"), AfterValidator(one_line)]
_Percent = Annotated[float, Interval(ge=0, le=100)]


@dataclass(frozen=True)
class BaselineRun:
    """A shallow baseline on one task of a table, with one seed; ``dataset`` is a name or FILE, as ``--dataset`` takes.

    ``classifier`` to ``limit`` are options of tools.baselines; None is its default. ``variant`` says which of a
    record's two accuracies is meant, so runs that differ in nothing else are one.
    """

    dataset: str
    method: str
    sources: tuple[str, ...]
    targets: tuple[str, ...]
    seed: int
    classifier: str | None = None
    dimension: int | None = None
    normalise: str = NORMALISATIONS[0]
    k: int | None = None
    limit: int | None = None
    variant: str = VARIANTS[0]

    @property
    def data(self) -> Dataset:
        return chosen(self.dataset)

    @property
    def name(self) -> str:
        """The name of the run's folder."""
        chosen = [
            self.classifier != CLASSIFIERS[0] and self.classifier,
            self.dimension and f"d{self.dimension}",
            self.normalise != NORMALISATIONS[0] and self.normalise,
            self.k and f"k{self.k}",
            self.limit and f"limit{self.limit}",
        ]
        parts = [self.method, *filter(None, chosen), f"{'+'.join(self.sources)}-{'+'.join(self.targets)}"]
        return "_".join([*parts, f"seed{self.seed}"])


Run = Experiment | BaselineRun
"""What one record is of; its folder is runs/DATASET/NAME."""


def run_path(run: Run) -> str:
    """Return a run's folder as DATASET/NAME, below the folder of all runs."""
    return f"{run.data.name}/{run.name}"


def data_folder(data: Path, seed: object, *, per_seed: bool) -> Path:
    """Return the folder of a run's LMDBs: ``data``, or ``data/seedN`` where each seed has its own."""
    return data / f"seed{seed}" if per_seed else data


@dataclass(frozen=True)
class Column:
    """A task: which domains are sources, which are targets.

    With ``shares`` (percentages) the sources are one undivided mixture that has them.
    """

    name: _Text
    sources: Annotated[tuple[_Text, ...], MinLen(1)]
    targets: Annotated[tuple[_Text, ...], MinLen(1)]
    shares: tuple[Positive, ...] = ()

    @property
    def settings(self) -> dict[str, Any]:
        """Return the settings of an experiment that the column fixes."""
        shares = {"shares": self.shares} if self.shares else {}
        return {"sources": self.sources, "targets": self.targets, **shares}


@dataclass(frozen=True)
class Candidate:
    """A run for each seed of the table; ``sources`` is what they learn from."""

    sources: tuple[str, ...]
    runs: tuple[Run, ...]

    @property
    def distinct(self) -> tuple[Run, ...]:
        """Return each run once; a method that draws no random numbers has one run for all seeds."""
        return tuple(dict.fromkeys(self.runs))


@dataclass(frozen=True)
class Cell:
    """One row in one column: the paper's accuracy (%, None if it has none) and our runs.

    Cited rows have no candidates, "best single source" has one for each source, all others have one.
    """

    paper: float | None
    candidates: tuple[Candidate, ...]


@dataclass(frozen=True)
class Row:
    """A method. ``paper_mean`` is the mean as the paper prints it, ``no_paper`` why the paper has no numbers.

    ``cited`` is the work whose numbers the paper repeats, None for rows that are run.
    """

    name: str
    cells: tuple[Cell, ...]
    paper_mean: float | None
    no_paper: str | None
    cited: str | None
    best_single_source: bool
    note: str | None


@dataclass(frozen=True)
class Table:
    """A table of the paper; ``name`` is that of its file."""

    name: str
    title: str
    source: str
    data: Dataset
    seeds: tuple[int, ...]
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    data_per_seed: bool = False
    """Whether each seed has LMDBs of its own."""
    reference: str | None = None
    """The name of the row that all others are compared with."""

    @property
    def in_paper(self) -> bool:
        """Say whether the paper has numbers for it; the workflow makes other tables only by name."""
        return any(cell.paper is not None for row in self.rows for cell in row.cells)

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        """Return each run of the table once, the first seed of every cell before any second one."""
        found: dict[str, Run] = {}
        for number in range(len(self.seeds)):
            for row in self.rows:
                for cell in row.cells:
                    for candidate in cell.candidates:
                        run = candidate.runs[number]
                        found.setdefault(run.name, run)
        return tuple(found.values())


_OF_TABLE = ("sources", "targets", "network", "image_size", "seed")

_CHOICES = {name: setting.type for name, setting in SETTINGS.items() if name not in _OF_TABLE}
"""What a row may say of its runs; the rest is the table's or the column's."""

_Runs = make_dataclass(
    "_Runs",
    [
        ("method", _CHOICES.pop("method")),
        *((name, kind, None) for name, kind in _CHOICES.items()),
        ("best_single_source", bool, False),
    ],
)


@dataclass(frozen=True)
class _Baseline:
    method: Literal[*BASELINES]
    classifier: Literal[*CLASSIFIERS] | None = None
    dimension: Positive | None = None
    normalise: Literal[*NORMALISATIONS] = NORMALISATIONS[0]
    variant: Literal[*VARIANTS] | None = None
    k: Positive | None = None
    limit: Positive | None = None


@dataclass(frozen=True)
class _Paper:
    values: tuple[_Percent, ...] | None = None
    mean: _Percent | None = None
    missing: _Text | None = None


@dataclass(frozen=True)
class _Row:
    """A row as the file has it."""

    name: _Text
    paper: _Paper
    runs: _Runs | None = None
    baseline: _Baseline | None = None
    cited: _Text | None = None
    note: _Text | None = None


@dataclass(frozen=True)
class _File:
    title: _Text
    source: _Text
    dataset: _Text
    seeds: Annotated[tuple[Natural, ...], MinLen(1)]
    columns: Annotated[tuple[Column, ...], MinLen(1)]
    rows: Annotated[tuple[_Row, ...], MinLen(1)]
    data_per_seed: bool = False
    reference: _Text | None = None
    network: Literal[*NETWORKS] | None = None
    image_size: Positive | None = None


def load(path: Path, *, seeds: tuple[int, ...] | None = None, iterations: int | None = None) -> Table:
    """Read and check the table that a YAML file defines.

    ``seeds`` and ``iterations`` replace the file's and the recipe's. Raises ProgramError naming file, key, what was
    found and what was expected.
    """
    if not path.is_file():
        known = ", ".join(sorted(file.stem for file in path.parent.glob("*.yaml")))
        raise ProgramError(f"{path}: no such file" + (f", expected one of {known}" if known else ""))
    file = checked(_File, read_yaml(path), str(path))
    dataset, data = _dataset(file.dataset, path)
    seeds = file.seeds if seeds is None else seeds
    if len(set(seeds)) != len(seeds) or not seeds:
        raise ProgramError(f"{path}: seeds: found {list(seeds)}, expected each once")
    if file.data_per_seed and data.features:
        raise ProgramError(f"{path}: data_per_seed: found true, expected false: features are extracted once")
    for key, named in (("columns", file.columns), ("rows", file.rows)):
        names = [one.name for one in named]
        for name in names:
            if names.count(name) > 1:
                raise ProgramError(f"{path}: {key}: found the name {name!r} twice, expected each once")
    compared = [row.name for row in file.rows if row.cited is None]
    if file.reference is not None and file.reference not in compared:
        raise ProgramError(f"{path}: reference: found {file.reference!r}, expected a row: {'; '.join(compared)}")
    common = {"iterations": iterations, "network": file.network, "image_size": file.image_size}
    rows = tuple(
        _row(row, f"{path}: rows[{i}] ({row.name})", dataset, file.columns, seeds, common, file.data_per_seed)
        for i, row in enumerate(file.rows)
    )
    return Table(
        path.stem,
        file.title,
        file.source,
        data,
        seeds,
        file.columns,
        _with_target_domains(rows),
        file.data_per_seed,
        file.reference,
    )


def _dataset(text: str, path: Path) -> tuple[str, Dataset]:
    """Return the name for ``--dataset`` and the dataset of a table.

    A FILE is relative to the folder of the table's file, ``path``.
    """
    option = str(path.parent / text) if text.endswith(".json") else text
    try:
        data = chosen(option)
    except ProgramError as error:
        raise ProgramError(f"{path}: dataset: {error}") from error
    if option != text and data.name in DATASETS:
        raise ProgramError(f"{path}: dataset: {option}: found the name {data.name!r}, which is one of ours")
    return option, data


def _row(
    row: _Row,
    where: str,
    dataset: str,
    columns: tuple[Column, ...],
    seeds: tuple[int, ...],
    common: Mapping[str, Any],
    data_per_seed: bool,
) -> Row:
    kinds = [kind for kind in ("runs", "baseline", "cited") if getattr(row, kind) is not None]
    if len(kinds) != 1:
        found = " and ".join(kinds) or "none of them"
        raise ProgramError(f"{where}: found {found}, expected exactly one of runs, baseline, cited")
    best = row.runs is not None and row.runs.best_single_source
    if row.runs is not None:
        choices = {name: value for name in ("method", *_CHOICES) if (value := getattr(row.runs, name)) is not None}
        choices |= {name: value for name, value in common.items() if value is not None}
        candidates = [
            tuple(
                _trained(choices, f"{where}: runs", dataset, task, seeds)
                for task in (
                    [replace(column, sources=(source,), shares=()) for source in column.sources] if best else [column]
                )
            )
            for column in columns
        ]
    elif row.baseline is not None:
        if row.baseline.method in SEEDLESS and not data_per_seed:
            seeds = (0,) * len(seeds)
        candidates = [(_baseline(row.baseline, f"{where}: baseline", dataset, column, seeds),) for column in columns]
    else:
        candidates = [()] * len(columns)
    values = _paper(row, f"{where}: paper", len(columns))
    return Row(
        row.name,
        tuple(Cell(*pair) for pair in zip(values, candidates, strict=True)),
        row.paper.mean,
        row.paper.missing,
        row.cited,
        best,
        row.note,
    )


def _with_target_domains(rows: tuple[Row, ...]) -> tuple[Row, ...]:
    """The rows; where they differ in the number of target domains, their notes say it, of each column in order."""
    known = [[_target_domains(cell) for cell in row.cells] for row in rows]
    if all(len(set(column) - {None}) < 2 for column in zip(*known, strict=True)):
        return rows
    texts = [", ".join(str(number) for number in numbers if number is not None) for numbers in known]
    notes = [
        "; ".join(filter(None, [row.note, text and f"k_target {text}"])) or None
        for row, text in zip(rows, texts, strict=True)
    ]
    return tuple(replace(row, note=note) for row, note in zip(rows, notes, strict=True))


def _target_domains(cell: Cell) -> int | None:
    """How many target domains the cell's runs know; None if they see no target or are not trained."""
    runs = [run for candidate in cell.candidates for run in candidate.runs]
    return next((run.k_target for run in runs if isinstance(run, Experiment) and run.sees_target), None)


def _paper(row: _Row, where: str, columns: int) -> Sequence[float | None]:
    """Return the paper's value for each column, or None for each."""
    paper = row.paper
    given = [key for key in ("values", "mean", "missing") if getattr(paper, key) is not None]
    if row.cited is not None and paper.missing:
        raise ProgramError(f"{where}: found missing, expected values: a cited row is nothing but the paper's numbers")
    expected = ["missing"] if paper.missing else ["values", "mean"] if columns > 1 else ["values"]
    if given != expected:  # a single column has no mean
        found = ", ".join(given) or "nothing"
        raise ProgramError(f"{where}: found {found}, expected {', '.join(expected)}")
    if paper.values is None:
        return (None,) * columns
    if len(paper.values) != columns:
        raise ProgramError(
            f"{where}: values: found {list(paper.values)}, expected {columns} values, one for each column"
        )
    return paper.values


def _trained(choices: dict[str, Any], where: str, dataset: str, column: Column, seeds: tuple[int, ...]) -> Candidate:
    """Make the experiments of one task, with the checks of ``tools.write_run``."""
    try:
        runs = tuple(make_experiment(chosen(dataset), **{**choices, **column.settings}, seed=seed) for seed in seeds)
    except ProgramError as error:
        raise ProgramError(f"{where}, column {column.name!r}: {error}") from error
    return Candidate(column.sources, runs)


def _baseline(baseline: _Baseline, where: str, dataset: str, column: Column, seeds: tuple[int, ...]) -> Candidate:
    options = vars(baseline) | {
        "classifier": (baseline.classifier or CLASSIFIERS[0]) if baseline.method in KERNEL else None,
        "variant": baseline.variant or VARIANTS[0],
    }
    if column.shares:
        raise ProgramError(f"{where}, column {column.name!r}: shares: no baseline takes them, expected a row of runs")
    try:  # of the domains' names
        make_experiment(chosen(dataset), "dial", **column.settings)
    except ProgramError as error:
        raise ProgramError(f"{where}, column {column.name!r}: {error}") from error
    runs = (
        BaselineRun(dataset=dataset, sources=column.sources, targets=column.targets, seed=seed, **options)
        for seed in seeds
    )
    return Candidate(column.sources, tuple(runs))
