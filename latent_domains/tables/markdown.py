"""A table in Markdown that lines up in a terminal too: the paper's numbers, ours, the differences, and footnotes."""

from collections.abc import Sequence

from latent_domains.common import markdown
from latent_domains.experiment.datasets import DATASETS
from latent_domains.experiment.experiment import Experiment
from latent_domains.tables.definition import Table
from latent_domains.tables.results import NOTHING, Result, RowResults, recomputed_mean


def table_text(table: Table, rows: Sequence[RowResults]) -> str:
    """The whole text: title, the table, what the numbers are, and the footnotes."""
    notes = _Footnotes()
    if len(table.columns) == 1:
        header = ["method", "paper", "here", "n", "difference"]
        lines = [_row_of_one(row, notes) for row in rows]
    else:
        header = ["method", "", *(column.name for column in table.columns), "mean"]
        lines = [line for row in rows for line in _rows_of_several(row, notes)]
    parts = [f"# {table.title}", _caption(table), markdown.table(header, lines)]
    return "\n\n".join([*parts, *([notes.text()] if notes else [])]) + "\n"


def signed(value: float) -> str:
    """A difference in points, with its sign."""
    text = f"{value:+.1f}"
    return "0.0" if float(text) == 0 else text.replace("-", "−")


class _Footnotes:
    """Numbered texts below the table; the same text has one number."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def __bool__(self) -> bool:
        return bool(self._numbers)

    def marks(self, texts: Sequence[str]) -> str:
        """What stands in a cell for these texts: `` [1] [3]``; empty for none."""
        numbers = [self._numbers.setdefault(text, len(self._numbers) + 1) for text in texts if text]
        return "".join(f" [{number}]" for number in numbers)

    def text(self) -> str:
        return "\n".join(f"{number}. {text}" for text, number in self._numbers.items())


def _caption(table: Table) -> str:
    seeds = f"seed{'s' if len(table.seeds) > 1 else ''} {', '.join(map(str, table.seeds))}"
    text = (
        f"{table.source[0].upper()}{table.source[1:]}. Accuracy on the target in %. Here: mean ± sample standard "
        f"deviation over {seeds}, always of the last iteration; n is the number of seeds that are there. "
        "Difference: here less the paper, in points."
    )
    if len(table.columns) > 1:
        text += " The paper's mean is as printed, then recomputed from its row."
    chosen = {run.iterations for run in table.runs if isinstance(run, Experiment)}
    usual = DATASETS[table.dataset].recipe.iterations
    if chosen - {usual}:
        text += f" Trained for {', '.join(map(str, sorted(chosen)))} iterations; the recipe has {usual}."
    return text


def _row_of_one(row: RowResults, notes: _Footnotes) -> list[str]:
    [cell], [result] = row.row.cells, row.cells
    name = row.row.name + notes.marks([row.row.note or ""])
    paper = _paper(cell.paper, row, notes)
    if result is None:
        return [name, paper, NOTHING + notes.marks([_cited_text(row)]), "", ""]
    n = str(result.n) if result.n else ""
    return [name, paper, _here(result, notes), n, _difference(result.mean, cell.paper)]


def _rows_of_several(row: RowResults, notes: _Footnotes) -> list[list[str]]:
    papers = [cell.paper for cell in row.row.cells]
    name = row.row.name + notes.marks([row.row.note or ""])
    mean, again = row.row.paper_mean, recomputed_mean(row.row)
    printed = NOTHING if mean is None else f"{mean:.1f}"
    recomputed = "" if again is None else f" ({again:.2f})"
    first = [name, "paper", *(_paper(paper, row, notes) for paper in papers), printed + recomputed]
    if row.row.cited is not None:
        return [[f"{name}{notes.marks([_cited_text(row)])}", *first[1:]]]
    every = [*row.cells, row.mean]
    here = ["", "here", *(_here(result, notes, with_n=True) for result in every)]
    differences = [_difference(result.mean, paper) for result, paper in zip(every, [*papers, mean], strict=True)]
    return [first, here, *([["", "difference", *differences]] if any(differences) else [])]


def _paper(value: float | None, row: RowResults, notes: _Footnotes) -> str:
    return NOTHING + notes.marks([row.row.no_paper or ""]) if value is None else f"{value:.1f}"


def _here(result: Result, notes: _Footnotes, *, with_n: bool = False) -> str:
    marks = notes.marks([result.reason, *result.remarks, _candidates_text(result)])
    n = f" (n={result.n})" if with_n and result.n else ""
    return f"{result.in_words()}{n}{marks}"


def _candidates_text(result: Result) -> str:
    """What each single source reached, and which one is the best."""
    if not result.candidates or result.mean is None:
        return ""
    each = ", ".join(f"{'+'.join(one.sources)} {one.in_words()} (n={one.n})" for one in result.candidates)
    return f"by source: {each}"


def _cited_text(row: RowResults) -> str:
    return f"as the paper cites it: {row.row.cited}"


def _difference(mean: float | None, paper: float | None) -> str:
    return "" if mean is None or paper is None else signed(mean - paper)
