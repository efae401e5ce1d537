"""A table of the paper as data: its columns, its rows, the paper's numbers and the runs that each cell stands for.

``experiments/NAME.yaml`` defines a table:

    title: …                           what the table shows
    source: Table 1                    where the paper prints it
    dataset: digits                    a name of latent_domains/experiment/datasets.py
    seeds: [0, 1, 2, 3, 4]             each cell has a run for each of them
    columns:                           one for each setting; several get a mean
      - {name: …, sources: [mnist, mnistm], targets: [usps]}
    rows:
      - name: mDA, k = 2               and one of:
        runs: {method: mda, k: 2}      our nets: options of tools.write_run, by the names of an Experiment's fields
        baseline: {method: gong2013}   shallow baselines: options of tools.baselines (variant, k, limit)
        cited: …                       nobody's run: numbers that the paper takes from the work named here
        paper: {values: [82.5]}        the paper's numbers, a value for each column; mean: as it is printed there
                                       or {missing: why it has none}
        note: …                        what a reader of the row should know

``best_single_source: true`` among ``runs`` trains on each source of a column alone. The cell is that of the source
whose mean accuracy on the target is best, which is how the paper defines these rows: it looks at target labels.
"""

import inspect
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from latent_domains.common.program import ROOT, ProgramError
from latent_domains.experiment.datasets import DATASETS, Dataset
from latent_domains.experiment.experiment import METHODS, Experiment, from_json, make_experiment
from latent_domains.tables.strict_yaml import Value, read_yaml

EXPERIMENTS = ROOT / "experiments"
"""Folder of the tables' definitions."""

DISCOVERY = ("gong2013", "hoffman2012")
"""The shallow baselines of tools.baselines that discover domains."""

BASELINES = (*DISCOVERY, "gfk", "svm")

VARIANTS = ("ensemble", "matching")
"""How discovered domains are used."""

OPTIONS = tuple(
    name
    for name, parameter in inspect.signature(make_experiment).parameters.items()
    if parameter.kind == parameter.KEYWORD_ONLY and name not in ("sources", "targets", "seed")
)
"""What a row may say of its runs beside their method; the rest is the table's or the column's."""


@dataclass(frozen=True)
class Baseline:
    """A shallow baseline in one setting of a table, with one seed.

    ``variant``, ``k`` and ``limit`` are options of tools.baselines; None is its default.
    """

    dataset: str
    method: str
    sources: tuple[str, ...]
    targets: tuple[str, ...]
    seed: int
    variant: str | None = None
    k: int | None = None
    limit: int | None = None

    @property
    def data(self) -> Dataset:
        return DATASETS[self.dataset]

    @property
    def name(self) -> str:
        """A folder name, as an Experiment has one."""
        chosen = [self.variant, self.k and f"k{self.k}", self.limit and f"limit{self.limit}"]
        parts = [self.method, *filter(None, chosen), f"{'+'.join(self.sources)}-{'+'.join(self.targets)}"]
        return "_".join([*parts, f"seed{self.seed}"])


Run = Experiment | Baseline
"""What one record is of; its folder is runs/DATASET/NAME."""


def place(run: Run) -> str:
    """A run's folder below that of all runs."""
    return f"{run.dataset}/{run.name}"


@dataclass(frozen=True)
class Column:
    """A setting: which domains are sources, which are targets."""

    name: str
    sources: tuple[str, ...]
    targets: tuple[str, ...]


@dataclass(frozen=True)
class Candidate:
    """Runs that differ in their seed alone; ``sources`` is what they learn from."""

    sources: tuple[str, ...]
    runs: tuple[Run, ...]


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
    dataset: str
    seeds: tuple[int, ...]
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        """All runs of the table, each once, seed by seed: the first seed of every cell comes before any second one."""
        found: dict[str, Run] = {}
        for number in range(len(self.seeds)):
            for row in self.rows:
                for cell in row.cells:
                    for candidate in cell.candidates:
                        run = candidate.runs[number]
                        found.setdefault(run.name, run)
        return tuple(found.values())


def load(path: Path, *, seeds: tuple[int, ...] | None = None, iterations: int | None = None) -> Table:
    """Read and check the table that a YAML file defines.

    ``seeds`` and ``iterations`` replace the file's and the recipe's. Raises ProgramError naming file, key, what was
    found and what was expected.
    """
    if not path.is_file():
        known = ", ".join(sorted(file.stem for file in path.parent.glob("*.yaml")))
        raise ProgramError(f"{path}: no such file" + (f", expected one of {known}" if known else ""))
    keys = read_yaml(path).keys(("title", "source", "dataset", "seeds", "columns", "rows"))
    dataset = keys["dataset"].text()
    if dataset not in DATASETS:
        raise keys["dataset"].error(f"one of {', '.join(DATASETS)}")
    if seeds is None:
        seeds = tuple(item.natural() for item in keys["seeds"].items())
    if len(set(seeds)) != len(seeds) or not seeds:
        raise ProgramError(f"{path}: seeds: found {list(seeds)}, expected each once")
    columns = tuple(_column(item) for item in keys["columns"].items())
    _distinct(keys["columns"], [column.name for column in columns])
    rows = tuple(_row(item, dataset, columns, seeds, iterations) for item in keys["rows"].items())
    _distinct(keys["rows"], [row.name for row in rows])
    return Table(path.stem, keys["title"].text(), keys["source"].text(), dataset, seeds, columns, rows)


def _distinct(where: Value, names: list[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise ProgramError(f"{where.where}: found the name {name!r} twice, expected each once")


def _column(value: Value) -> Column:
    keys = value.keys(("name", "sources", "targets"))
    domains = {key: tuple(item.text() for item in keys[key].items()) for key in ("sources", "targets")}
    return Column(keys["name"].text(), domains["sources"], domains["targets"])


def _row(
    value: Value, dataset: str, columns: tuple[Column, ...], seeds: tuple[int, ...], iterations: int | None
) -> Row:
    keys = value.keys(("name", "paper"), ("runs", "baseline", "cited", "note"))
    name = keys["name"].text()
    keys = {key: Value(f"{value.where} ({name}): {key}", item.found) for key, item in keys.items()}
    kinds = [kind for kind in ("runs", "baseline", "cited") if kind in keys]
    if len(kinds) != 1:
        raise ProgramError(
            f"{value.where} ({name}): found {' and '.join(kinds) or 'none of them'}, "
            "expected exactly one of runs, baseline, cited"
        )
    best = False
    if "runs" in keys:
        best = Value(f"{keys['runs'].where}: best_single_source", _best_single_source(keys["runs"])).flag()
        settings = [
            [replace(column, sources=(source,)) for source in column.sources] if best else [column]
            for column in columns
        ]
        candidates = [
            tuple(_trained(keys["runs"], dataset, setting, seeds, iterations) for setting in alone)
            for alone in settings
        ]
    elif "baseline" in keys:
        candidates = [(_baseline(keys["baseline"], dataset, column, seeds),) for column in columns]
    else:
        candidates = [()] * len(columns)
    values, mean, missing = _paper(keys["paper"], columns)
    if "cited" in keys and missing:
        raise keys["paper"].error("values: a cited row is nothing but the paper's numbers")
    return Row(
        name,
        tuple(Cell(*pair) for pair in zip(values, candidates, strict=True)),
        mean,
        missing,
        keys["cited"].text() if "cited" in keys else None,
        best,
        keys["note"].text() if "note" in keys else None,
    )


def _best_single_source(value: Value) -> object:
    return value.found.get("best_single_source", False) if isinstance(value.found, dict) else False


def _paper(value: Value, columns: tuple[Column, ...]) -> tuple[tuple[float | None, ...], float | None, str | None]:
    """The paper's values for each column, its printed mean, and why there are none."""
    if isinstance(value.found, dict) and "missing" in value.found:
        return (None,) * len(columns), None, value.keys(("missing",))["missing"].text()
    # A single column has no mean.
    keys = value.keys(("values", "mean") if len(columns) > 1 else ("values",))
    values = tuple(item.percent() for item in keys["values"].items())
    if len(values) != len(columns):
        raise keys["values"].error(f"{len(columns)} values, one for each column")
    return values, keys["mean"].percent() if "mean" in keys else None, None


def _trained(value: Value, dataset: str, column: Column, seeds: tuple[int, ...], iterations: int | None) -> Candidate:
    """The experiments of one setting, each checked as ``tools.write_run`` checks it."""
    keys = value.keys(("method",), (*OPTIONS, "best_single_source"))
    options = {key: item.found for key, item in keys.items() if key != "best_single_source"}
    if iterations is not None:
        options["iterations"] = iterations
    method = keys["method"].text()
    if method not in METHODS:
        raise keys["method"].error(f"one of {', '.join(METHODS)}")
    try:
        runs = []
        for seed in seeds:
            default = make_experiment(dataset, method, sources=column.sources, targets=column.targets, seed=seed)
            runs.append(from_json({**default.to_json(), **options}))  # it checks the types too
    except ProgramError as error:
        raise ProgramError(f"{value.where}, column {column.name!r}: {error}") from error
    return Candidate(column.sources, tuple(runs))


def _baseline(value: Value, dataset: str, column: Column, seeds: tuple[int, ...]) -> Candidate:
    keys = value.keys(("method",), ("variant", "k", "limit"))
    for key, known in (("method", BASELINES), ("variant", VARIANTS)):
        if key in keys and keys[key].text() not in known:
            raise keys[key].error(f"one of {', '.join(known)}")
    for key in ("variant", "k"):
        if key in keys and keys["method"].found not in DISCOVERY:
            raise keys[key].error(f"nothing: {keys['method'].found} discovers no domains")
    chosen = {key: item.found for key, item in keys.items() if key != "method"}
    for key in ("k", "limit"):
        if key in keys and keys[key].natural() == 0:
            raise keys[key].error("a whole number of at least 1")
    try:  # of the domains' names
        make_experiment(dataset, "dial", sources=column.sources, targets=column.targets)
    except ProgramError as error:
        raise ProgramError(f"{value.where}, column {column.name!r}: {error}") from error
    return Candidate(
        column.sources,
        tuple(
            Baseline(dataset, keys["method"].found, column.sources, column.targets, seed, **chosen) for seed in seeds
        ),
    )
