"""A table in Markdown that lines up in a terminal too: the paper's numbers, ours, the differences, and footnotes."""

from collections.abc import Sequence

from latent_domains.common import wording
from latent_domains.data.sets.published import IMAGE_SETS
from latent_domains.experiment.experiment import Experiment
from latent_domains.runs.record import DomainUsage
from latent_domains.tables.definition import Table
from latent_domains.tables.results import CLASS_MEAN, DOMAINS, NOTHING, Result, RowResults, differences, recomputed_mean

Notes = dict[str, int]
"""Footnotes with their numbers; the same text has one number."""


def table_text(table: Table, rows: Sequence[RowResults]) -> str:
    """Write title, caption, table, footnotes, and the differences from the reference row."""
    notes: Notes = {}
    usages = [usage for row in rows for result in row.results for usage in result.usages]
    if len(table.columns) == 1:
        of_classes = [CLASS_MEAN] if shows_pictures(table) else []
        header = ["method", "paper", "here", "n", "difference", *of_classes, *(DOMAINS if usages else [])]
        lines = [_row_of_one(row, notes, bool(of_classes)) for row in rows]
    else:
        header = ["method", "", *(column.name for column in table.columns), "mean"]
        lines = [line for row in rows for line in _rows_of_several(row, notes, shows_pictures(table))]
    lines = [[*line, *[""] * len(header)][: len(header)] for line in lines]
    parts = [f"# {wording.escape_html(table.title)}", _caption(table, usages), wording.table(header, lines)]
    if notes:
        parts.append("\n".join(f"{number}. {wording.escape_html(text)}" for text, number in notes.items()))
    if table.reference is not None:
        parts.append(_paired_text(table, rows))
    return "\n\n".join(parts) + "\n"


def shows_pictures(table: Table) -> bool:
    """Say whether a table is about pictures. Their classes differ in size, so it shows class means too."""
    return table.data.images in IMAGE_SETS


def signed(value: float, decimals: int = 1) -> str:
    """Format a difference in points with its sign."""
    text = f"{value:+.{decimals}f}"
    return text[1:] if float(text) == 0 else text.replace("-", "−")


def _paired_text(table: Table, rows: Sequence[RowResults]) -> str:
    """Return the second table: the difference of every row from the reference."""
    columns = [column.name for column in table.columns] + (["mean"] if len(table.columns) > 1 else [])
    lines = []
    for name, found in differences(table, rows).items():
        for column, difference in zip(columns, found, strict=True):
            line = [NOTHING] * 4
            if difference is not None:
                interval = f"{signed(difference.low, 2)} to {signed(difference.high, 2)}"
                line = [signed(difference.mean, 2), interval, str(difference.n), f"{difference.resolvable:.2f}"]
            lines.append([name, *([column] if len(columns) > 1 else []), *line])
    header = ["method", *(["column"] if len(columns) > 1 else []), "difference", "95 % interval", "n", "resolvable"]
    return (
        f"## Less {wording.escape_html(table.reference)}, seed by seed\n\n"
        "In points: mean of the differences d of the n seeds that both rows have, its 95 % interval by Student's t, "
        "and the smallest true difference that n seeds resolve: the one that a test at 5 % finds with 80 % power, "
        "δ·s/√n with s the sample standard deviation of d and δ such that Student's t of non-centrality δ and n − 1 "
        "degrees of freedom is above t₀.₉₇₅ with a probability of 0.8.\n\n" + wording.table(header, lines)
    )


def _marks(notes: Notes, *texts: str | None) -> str:
    """Number these texts as footnotes. Return the numbers for a cell: `` [1] [3]``; empty for none."""
    numbers = [notes.setdefault(text, len(notes) + 1) for text in texts if text]
    return "".join(f" [{number}]" for number in numbers)


def _caption(table: Table, usages: Sequence[DomainUsage]) -> str:
    seeds = f"seed{'s' if len(table.seeds) > 1 else ''} {', '.join(map(str, table.seeds))}"
    text = (
        f"{table.source[0].upper()}{table.source[1:]}. Accuracy on the target in %. Here: mean ± sample standard "
        f"deviation over {seeds}, always of the last iteration; n is the number of seeds that are there. "
        "Difference: here less the paper, in points."
    )
    if len(table.columns) > 1:
        text += " The paper's mean is as printed, then recomputed from its row."
    if shows_pictures(table):
        text += " Class mean: every class counts alike, however many images it has; the mean over the seeds."
    if usages:
        looked_at = {"held-out" if usage.held_out else "training" for usage in usages}
        text += (
            " Of the latent source domains, means over the seeds: the largest one's share in %, purity and NMI with "
            f"the true domains, on {' or '.join(sorted(looked_at))} images of the sources."
        )
    chosen = {run.recipe.iterations for run in table.runs if isinstance(run, Experiment)}
    usual = table.data.recipe.iterations
    if chosen - {usual}:
        text += f" Trained for {', '.join(map(str, sorted(chosen)))} iterations; the recipe has {usual}."
    return text


def _row_of_one(row: RowResults, notes: Notes, with_class_mean: bool) -> list[str]:
    [cell], [result] = row.row.cells, row.cells
    line = [row.row.name + _marks(notes, row.row.note), _paper(cell.paper, row, notes)]
    if result is None:
        return [*line, NOTHING + _marks(notes, _cited_text(row))]
    line += [_here(result, notes), str(result.n or ""), _difference(result.mean, cell.paper)]
    return [*line, *([_class_mean(result)] if with_class_mean else []), *_domains(result)]


def _rows_of_several(row: RowResults, notes: Notes, with_class_mean: bool) -> list[list[str]]:
    papers = [cell.paper for cell in row.row.cells]
    name = row.row.name + _marks(notes, row.row.note)
    mean, again = row.row.paper.mean, recomputed_mean(row.row)
    printed = NOTHING if mean is None else f"{mean:.1f}"
    recomputed = "" if again is None else f" ({again:.2f})"
    first = [name, "paper", *(_paper(paper, row, notes) for paper in papers), printed + recomputed]
    if row.row.cited is not None:
        return [[f"{name}{_marks(notes, _cited_text(row))}", *first[1:]]]
    every = [*row.cells, row.mean]
    further = {
        "here": [_here(result, notes, with_n=True) for result in every],
        "difference": [_difference(result.mean, paper) for result, paper in zip(every, [*papers, mean], strict=True)],
        CLASS_MEAN: [_class_mean(result) for result in every] if with_class_mean else [],
        ", ".join(DOMAINS): [", ".join(filter(None, _domains(result))) for result in every],
    }
    return [first, *(["", name, *line] for name, line in further.items() if any(line))]


def _class_mean(result: Result) -> str:
    return "" if result.class_mean is None else f"{result.class_mean:.1f}"


def _domains(result: Result) -> list[str]:
    """Return each of DOMAINS, empty if there is none."""
    found = result.domains
    return [format(found[name], one.form) if name in found else "" for name, one in DOMAINS.items()]


def _paper(value: float | None, row: RowResults, notes: Notes) -> str:
    return NOTHING + _marks(notes, row.row.paper.missing) if value is None else f"{value:.1f}"


def _here(result: Result, notes: Notes, *, with_n: bool = False) -> str:
    marks = _marks(notes, result.reason, *result.remarks, _candidates_text(result))
    n = f" (n={result.n})" if with_n and result.n else ""
    return f"{result.in_words()}{n}{marks}"


def _candidates_text(result: Result) -> str:
    """Return the accuracy of each single source, and which one is the best."""
    if not result.candidates or result.mean is None:
        return ""
    each = ", ".join(f"{'+'.join(one.sources)} {one.in_words()} (n={one.n})" for one in result.candidates)
    return f"by source: {each}"


def _cited_text(row: RowResults) -> str:
    return f"as the paper cites it: {row.row.cited}"


def _difference(mean: float | None, paper: float | None) -> str:
    return "" if mean is None or paper is None else signed(mean - paper)
