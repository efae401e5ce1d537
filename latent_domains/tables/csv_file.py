"""A table for spreadsheets: a line for each cell, for each candidate of a best single source, and for each mean."""

import csv
import io
from collections.abc import Iterator, Sequence

from latent_domains.tables.definition import Table
from latent_domains.tables.results import Result, RowResults, recomputed_mean

FIELDS = (
    "table",
    "row",
    "kind",
    "column",
    "part",
    "sources",
    "targets",
    "paper",
    "paper_recomputed",
    "mean",
    "std",
    "n",
    "seeds",
    "difference",
)
"""Of every line; an accuracy for each seed, the reason and the remarks follow."""


def csv_text(table: Table, rows: Sequence[RowResults]) -> str:
    """The table as comma-separated values.

    ``part`` is cell, candidate (one source of a best single source) or mean (over the columns; the paper's as printed,
    and recomputed). Accuracies are in %; what is not known is empty.
    """
    text = io.StringIO()
    seeds = [f"seed {seed}" for seed in table.seeds]
    writer = csv.DictWriter(text, [*FIELDS, *seeds, "reason", "remarks"], restval="", lineterminator="\n")
    writer.writeheader()
    for row in rows:
        for line in _lines(table, row):
            writer.writerow({"table": table.name, "row": row.row.name, "kind": _kind(row), **line})
    return text.getvalue()


def _kind(row: RowResults) -> str:
    return "cited" if row.row.cited is not None else "ours"


def _lines(table: Table, row: RowResults) -> Iterator[dict[str, str]]:
    """The lines of a row, without what they share."""
    missing = {"remarks": row.row.no_paper or row.row.cited or ""}
    for column, cell, result in zip(table.columns, row.row.cells, row.cells, strict=True):
        setting = {"column": column.name, "sources": "+".join(column.sources), "targets": "+".join(column.targets)}
        yield {**setting, "part": "cell", **missing, **_numbers(cell.paper, result, missing["remarks"])}
        for one in result.candidates if result else ():
            yield {**setting, "part": "candidate", **_numbers(None, one, "")}
    if len(table.columns) > 1:
        again = recomputed_mean(row.row)
        line = {"column": "mean", "part": "mean", "paper_recomputed": _number(again), **missing}
        yield line | _numbers(row.row.paper_mean, row.mean, missing["remarks"])


def _numbers(paper: float | None, result: Result | None, remark: str) -> dict[str, str]:
    if result is None:
        return {"paper": _number(paper)}
    difference = None if paper is None or result.mean is None else result.mean - paper
    return {
        "paper": _number(paper),
        "mean": _number(result.mean),
        "std": _number(result.std),
        "n": str(result.n),
        "seeds": str(result.wanted),
        "difference": _number(difference),
        **{f"seed {seed}": _number(accuracy) for seed, accuracy in result.accuracies.items()},
        **({"sources": "+".join(result.sources)} if result.sources else {}),
        "reason": result.reason,
        "remarks": "; ".join(filter(None, [remark, *result.remarks])),
    }


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}".rstrip("0").rstrip(".")
