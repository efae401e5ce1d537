"""A table of the paper as data: its columns, its rows, the paper's numbers and the runs of each cell.

``experiments/NAME.yaml`` defines a table; docs/extending.md has an example, and explains the keys.

``best_single_source: true`` in ``runs`` trains on each source of a column separately. The cell has the source with the
best mean accuracy on the target, as the paper defines these rows: this uses target labels.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from annotated_types import Interval, MinLen
from pydantic import AfterValidator, Field
from ruamel.yaml import YAML, YAMLError

from latent_domains.common.files import read_text
from latent_domains.common.program import ROOT, ProgramError
from latent_domains.common.validation import Natural, Positive, check_keys, checked
from latent_domains.common.wording import one_line
from latent_domains.experiment.baselines import (
    CLASSIFIERS,
    DISCOVERY,
    KERNEL,
    NORMALISATIONS,
    SEEDLESS,
    VARIANTS,
    Baseline,
)
from latent_domains.experiment.datasets import DATASETS, Dataset, find_dataset
from latent_domains.experiment.experiment import SETTINGS, Experiment, make_experiment
from latent_domains.experiment.networks import NETWORKS

EXPERIMENTS = ROOT / "experiments"
"""Folder of the tables' definitions."""

_LONGEST = 10**6
"""The most characters of a table as JSON: nested aliases turn a few lines into gigabytes."""

_Text = Annotated[str, Field(pattern=r"\S"), AfterValidator(one_line)]
_Percent = Annotated[float, Interval(ge=0, le=100)]
_Items = TypeVar("_Items", bound=tuple[Any, ...])


def _without_repetition(items: _Items) -> _Items:
    names = [getattr(item, "name", item) for item in items]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"found {name!r} twice, expected each once")
    return items


_Several = (MinLen(1), AfterValidator(_without_repetition))


@dataclass(frozen=True)
class Column:
    """A task: which domains are sources, which are targets.

    With ``shares`` (percentages) the sources are one undivided mixture with these shares.
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


SINGLE_SOURCE = "best_single_source"

_OF_ROWS = tuple(name for name in SETTINGS if name not in ("sources", "targets", "network", "image_size", "seed"))
"""The settings that a row may give its runs; the others belong to the table or the column."""


@dataclass(frozen=True)
class BaselineVariant(Baseline):
    """A shallow baseline in a file; ``variant`` selects one of a record's two accuracies."""

    variant: Literal[*VARIANTS] = VARIANTS[0]

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.variant != VARIANTS[0] and self.method not in DISCOVERY:
            raise ValueError(
                f"variant: found {self.variant!r}, expected {VARIANTS[0]!r}: {self.method} discovers no domains"
            )


@dataclass(frozen=True)
class Paper:
    """The paper's accuracies (%) of a row, and their mean as printed; or why it has none."""

    values: tuple[_Percent, ...] | None = None
    mean: _Percent | None = None
    missing: _Text | None = None

    def __post_init__(self) -> None:
        if (self.values is None) == (self.missing is None) or (self.missing and self.mean is not None):
            given = [key for key, value in vars(self).items() if value is not None]
            raise ValueError(f"found {', '.join(given) or 'nothing'}, expected values, or missing alone")


@dataclass
class Row:
    """A method in a file, and its ``cells``, one for each column, which :func:`load` makes.

    ``runs`` are settings of experiments, and SINGLE_SOURCE. ``cited`` is the work whose numbers the paper repeats.
    """

    name: _Text
    paper: Paper
    runs: dict[str, Any] | None = None
    baseline: BaselineVariant | None = None
    cited: _Text | None = None
    note: _Text | None = None
    cells: tuple["Cell", ...] = field(init=False)

    def __post_init__(self) -> None:
        kinds = [kind for kind in ("runs", "baseline", "cited") if getattr(self, kind) is not None]
        if len(kinds) != 1:
            found = " and ".join(kinds) or "none of them"
            raise ValueError(f"found {found}, expected exactly one of runs, baseline, cited")
        if self.cited and self.paper.missing:
            raise ValueError("paper: found missing, expected values: a cited row is nothing but the paper's numbers")


@dataclass(frozen=True, kw_only=True)
class BaselineRun(BaselineVariant):
    """A shallow baseline on one task of a table, with one seed; ``dataset`` is a name or FILE, as for ``--dataset``.

    Runs that differ only in ``variant`` share a record.
    """

    dataset: str
    sources: tuple[str, ...]
    targets: tuple[str, ...]
    seed: int

    @property
    def data(self) -> Dataset:
        return find_dataset(self.dataset)

    @property
    def name(self) -> str:
        """The name of the run's folder."""
        options = [
            self.classifier != CLASSIFIERS[0] and self.classifier,
            self.dimension and f"d{self.dimension}",
            self.normalise != NORMALISATIONS[0] and self.normalise,
            self.k and f"k{self.k}",
            self.limit and f"limit{self.limit}",
        ]
        domains = f"{'+'.join(self.sources)}-{'+'.join(self.targets)}"
        return "_".join([self.method, *filter(None, options), domains, f"seed{self.seed}"])


Run = Experiment | BaselineRun
"""The run of one record; its folder is runs/DATASET/NAME."""


def run_path(run: Run) -> str:
    """Return a run's folder as DATASET/NAME, below the folder of all runs."""
    return f"{run.data.name}/{run.name}"


def data_folder(data: Path, seed: object, *, per_seed: bool) -> Path:
    """Return the folder of a run's LMDBs: ``data``, or ``data/seedN`` if each seed has its own."""
    return data / f"seed{seed}" if per_seed else data


@dataclass(frozen=True)
class Candidate:
    """A run for each seed of the table; ``sources`` are the domains they are trained on."""

    sources: tuple[str, ...]
    runs: tuple[Run, ...]

    @property
    def distinct(self) -> tuple[Run, ...]:
        """Return each run once; a method without random numbers has one run for all seeds."""
        return tuple(dict.fromkeys(self.runs))


@dataclass(frozen=True)
class Cell:
    """One row in one column: the paper's accuracy (%, None if it has none) and our runs.

    Cited rows have no candidates, "best single source" has one for each source, all others have one.
    """

    paper: float | None
    candidates: tuple[Candidate, ...]


@dataclass
class Table:
    """A table of the paper in a file; ``reference`` is the row with which all others are compared.

    With ``data_per_seed`` each seed has its own LMDBs. ``dataset`` is a name or FILE, as for ``--dataset``.
    :func:`load` adds what follows from the file: its ``name``, the dataset (``data``), and the ``files`` that the table
    depends on: its own, that of the table that it is like, if any, the description of a dataset that is not one of
    ours, and files of domains.
    """

    title: _Text
    source: _Text
    dataset: _Text
    seeds: Annotated[tuple[Natural, ...], *_Several]
    columns: Annotated[tuple[Column, ...], *_Several]
    rows: Annotated[tuple[Row, ...], *_Several]
    data_per_seed: bool = False
    reference: _Text | None = None
    network: Literal[*NETWORKS] | None = None
    image_size: Positive | None = None
    name: str = field(init=False)
    data: Dataset = field(init=False)
    files: tuple[Path, ...] = field(init=False)

    @property
    def in_paper(self) -> bool:
        """Say whether it is a table of the paper, with its size of pictures; the workflow makes others only by name."""
        papers_size = all(run.data.folder is None for run in self.runs)
        return papers_size and any(cell.paper is not None for row in self.rows for cell in row.cells)

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


def load(path: Path, *, seeds: tuple[int, ...] | None = None, iterations: int | None = None) -> Table:
    """Read and check the table in a YAML file.

    ``seeds`` and ``iterations`` replace the file's and the recipe's.
    """
    if not path.is_file():
        known = ", ".join(sorted(file.stem for file in path.parent.glob("*.yaml")))
        raise ProgramError(f"{path}: no such file" + (f", expected one of {known}" if known else ""))
    values, files = _values(path)
    if seeds is not None and isinstance(values, dict):
        values["seeds"] = seeds
    table = checked(Table, values, str(path))
    table.name, (table.dataset, table.data) = path.stem, _dataset(table.dataset, path)
    described = () if table.dataset in DATASETS else (Path(table.dataset),)
    told = [path.parent / str(row.runs["domains"]) for row in table.rows if row.runs and row.runs.get("domains")]
    table.files = (*files, *described, *dict.fromkeys(told))
    if table.data_per_seed and table.data.features:
        raise ProgramError(f"{path}: data_per_seed: found true, expected false: features are extracted once")
    compared = [row.name for row in table.rows if row.cited is None]
    if table.reference is not None and table.reference not in compared:
        raise ProgramError(f"{path}: reference: found {table.reference!r}, expected a row: {'; '.join(compared)}")
    for number, row in enumerate(table.rows):
        where = f"{path}: rows[{number}] ({row.name})"
        if row.runs is not None:
            _check_runs(row.runs, f"{where}: runs")
        cells = []
        for column, value in zip(table.columns, _paper_values(row, where, len(table.columns)), strict=True):
            try:
                cells.append(Cell(value, _candidates(row, table, column, iterations)))
            except ProgramError as error:
                raise ProgramError(f"{where}, column {column.name!r}: {error}") from error
        row.cells = tuple(cells)
    _note_target_domains(table.rows)
    return table


def _values(path: Path) -> tuple[Any, tuple[Path, ...]]:
    """Return the values in a file, and the files; missing values are those of the table that it is ``like``."""
    values = _read_yaml(path)
    if not isinstance(values, dict) or "like" not in values:
        return values, (path,)
    where, like = f"{path}: like", checked(_Text, values.pop("like"), f"{path}: like")
    places = [folder / f"{like}.yaml" for folder in (path.parent, EXPERIMENTS)]
    whole = next((file for file in places if file.is_file() and not file.samefile(path)), None)
    if whole is None:
        raise ProgramError(f"{where}: found {like!r}, expected the name of another table, beside this or of ours")
    others = _read_yaml(whole)
    if not isinstance(others, dict) or "like" in others:
        raise ProgramError(f"{where}: found {like!r}, expected a table that is like no other")
    return {**others, **values}, (path, whole)


def _read_yaml(path: Path) -> Any:
    """Return the values in a file of YAML 1.2 as in JSON: a date is a text. Refuses a key that occurs twice."""
    try:
        values = YAML(typ="safe", pure=True).load(read_text(path, "utf-8"))
        text = ""
        for part in json.JSONEncoder(default=str).iterencode(values):
            text += part
            if len(text) > _LONGEST:
                raise ValueError(f"it has more than {_LONGEST:,} characters, aliases written out")
        return json.loads(text)
    except (YAMLError, ValueError, TypeError, RecursionError) as error:  # no UTF-8, no date, no key of JSON's
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or error
        raise ProgramError(f"{path}{line}: not valid YAML: {one_line(problem)}") from error


def _dataset(text: str, path: Path) -> tuple[str, Dataset]:
    """Return the name for ``--dataset`` and the dataset of a table.

    A FILE is relative to the folder of the table's file, ``path``.
    """
    option = str(path.parent / text) if text.endswith(".json") else text
    try:
        data = find_dataset(option)
    except ProgramError as error:
        raise ProgramError(f"{path}: dataset: {error}") from error
    if option != text and data.name in DATASETS:
        raise ProgramError(f"{path}: dataset: {option}: found the name {data.name!r}, which is one of ours")
    return option, data


def _paper_values(row: Row, where: str, columns: int) -> tuple[float | None, ...]:
    """Return the paper's value for each column, or None for each."""
    values, mean = row.paper.values, row.paper.mean
    if values is None:
        return (None,) * columns
    if len(values) != columns:
        raise ProgramError(
            f"{where}: paper: values: found {list(values)}, expected {columns} values, one for each column"
        )
    if (mean is None) == (columns > 1):
        raise ProgramError(f"{where}: paper: mean: found {mean}, expected {'a number' if columns > 1 else 'none'}")
    return values


def _check_runs(runs: dict[str, Any], where: str) -> None:
    """Raise ProgramError for a key that a row cannot have; :func:`make_experiment` checks the values."""
    check_keys(runs, (*_OF_ROWS, SINGLE_SOURCE), where)
    for name, value in {"method": None, **runs}.items():
        if value is None:
            raise ProgramError(f"{where}: {name}: found None, expected a value")
    checked(SETTINGS["method"].type, runs["method"], f"{where}: method")
    checked(bool, runs.get(SINGLE_SOURCE, False), f"{where}: {SINGLE_SOURCE}")


def _candidates(row: Row, table: Table, column: Column, iterations: int | None) -> tuple[Candidate, ...]:
    """Make the runs of a cell, with the checks of ``tools.write_run``."""
    if row.cited is not None:
        return ()
    unlabelled = [target for target in column.targets if target in table.data.unlabelled]
    if unlabelled and (row.baseline or len(unlabelled) == len(column.targets)):
        raise ProgramError(f"targets: {', '.join(unlabelled)} without labels, expected labels for the accuracy")
    if row.baseline is not None:
        return (_baseline(row.baseline, table, column),)
    if column.shares and not row.runs.get(SINGLE_SOURCE):
        for name, fixed in (("shares", list(column.shares)), ("undivided", True)):
            if (found := row.runs.get(name, fixed)) != fixed:
                raise ProgramError(f"{name}: found {found!r} in the row, expected {fixed!r} as in the column")
    settings = {
        **{name: value for name, value in row.runs.items() if name != SINGLE_SOURCE},
        **({"iterations": iterations} if iterations else {}),
        "network": table.network,
        "image_size": table.image_size,
    }
    if settings.get("domains"):
        settings["domains"] = table.files[0].parent / checked(str, settings["domains"], "domains")
    tasks = [column]
    if row.runs.get(SINGLE_SOURCE):
        tasks = [replace(column, sources=(source,), shares=()) for source in column.sources]
    found = []
    for task in tasks:
        runs = [make_experiment(table.data, **{**settings, **task.settings, "seed": seed}) for seed in table.seeds]
        found.append(Candidate(task.sources, tuple(runs)))
    return tuple(found)


def _baseline(baseline: BaselineVariant, table: Table, column: Column) -> Candidate:
    if column.shares:
        raise ProgramError("shares: no baseline takes them, expected a row of runs")
    make_experiment(table.data, "dial", **column.settings)  # checks the domains' names
    options = vars(baseline) | {
        "classifier": (baseline.classifier or CLASSIFIERS[0]) if baseline.method in KERNEL else None
    }
    task = {"dataset": table.dataset, "sources": column.sources, "targets": column.targets}
    one_run = baseline.method in SEEDLESS and not table.data_per_seed
    seeds = (0,) * len(table.seeds) if one_run else table.seeds
    return Candidate(column.sources, tuple(BaselineRun(**options, **task, seed=seed) for seed in seeds))


def _note_target_domains(rows: Sequence[Row]) -> None:
    """Add the number of target domains to the notes of each column, in order, if rows differ in it."""
    known = [[_target_domains(cell) for cell in row.cells] for row in rows]
    if all(len(set(column) - {None}) < 2 for column in zip(*known, strict=True)):
        return
    for row, numbers in zip(rows, known, strict=True):
        if text := ", ".join(str(number) for number in numbers if number is not None):
            row.note = f"{row.note}; k_target {text}" if row.note else f"k_target {text}"


def _target_domains(cell: Cell) -> int | None:
    """Return the number of target domains in the cell's runs; None if they see no target or are not trained."""
    runs = [run for candidate in cell.candidates for run in candidate.runs]
    return next((run.k_target for run in runs if isinstance(run, Experiment) and run.method.sees_target), None)
