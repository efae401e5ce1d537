"""A table for spreadsheets: a line for each cell, for each candidate of a best single source, and for each mean."""

import csv
import io
from collections.abc import Iterator, Sequence

from latent_domains.tables.definition import Table
from latent_domains.tables.results import (
    CLASS_MEAN,
    DOMAINS,
    PairedDifference,
    Result,
    RowResults,
    differences,
    recomputed_mean,
)

_NUMBERS = ("paper", "paper_recomputed", "mean", "std", "n", "seeds", "difference", CLASS_MEAN)

FIELDS = ("table", "row", "kind", "column", "part", "sources", "targets", *_NUMBERS)
"""Fields of every line.

An accuracy for each seed follows, then DOMAINS and PAIRED if there are any, reason, remarks.
"""

PAIRED = ("reference", "paired difference", "interval low", "interval high", "paired n", "resolvable")
"""Of the rows of a table with a reference: see :class:`latent_domains.tables.results.PairedDifference`."""


def csv_text(table: Table, rows: Sequence[RowResults]) -> str:
    """Return the table as comma-separated values.

    ``part`` is cell, candidate (one source of a best single source) or mean (over the columns; the paper's as printed,
    and recomputed). Accuracies are in %; unknown values are empty.
    """
    text = io.StringIO()
    seeds = [f"seed {seed}" for seed in table.seeds]
    paired = differences(table, rows)
    domains = DOMAINS if any(result.usages for row in rows for result in row.results) else ()
    fields = [*FIELDS, *seeds, *domains, *(PAIRED if paired else ()), "reason", "remarks"]
    writer = csv.DictWriter(text, fields, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        for line in _lines(table, row, iter(paired.get(row.row.name, ()))):
            kind = "ours" if row.row.cited is None else "cited"
            writer.writerow({"table": table.name, "row": row.row.name, "kind": kind, **line})
    return text.getvalue()


def _lines(table: Table, row: RowResults, paired: Iterator[PairedDifference | None]) -> Iterator[dict[str, str]]:
    """Yield the lines of a row, without common fields; ``paired`` are its differences from the reference, if any."""
    remarks = "; ".join(filter(None, [row.row.note, row.row.paper.missing or row.row.cited]))
    for column, cell, result in zip(table.columns, row.row.cells, row.cells, strict=True):
        task = {"column": column.name, "sources": "+".join(column.sources), "targets": "+".join(column.targets)}
        yield {**task, "part": "cell", **_numbers(cell.paper, result, remarks), **_paired(table, next(paired, None))}
        for one in result.candidates if result else ():
            yield {**task, "part": "candidate", **_numbers(None, one, "")}
    if len(table.columns) > 1:
        again = recomputed_mean(row.row)
        line = {"column": "mean", "part": "mean", "paper_recomputed": _number(again)}
        yield line | _numbers(row.row.paper.mean, row.mean, remarks) | _paired(table, next(paired, None))


def _paired(table: Table, found: PairedDifference | None) -> dict[str, str]:
    if found is None:
        return {}
    numbers = (found.mean, found.low, found.high, found.n, found.resolvable)
    return dict(zip(PAIRED, [table.reference, *map(_number, numbers)], strict=True))


def _numbers(paper: float | None, result: Result | None, remark: str) -> dict[str, str]:
    if result is None:
        return {"paper": _number(paper), "remarks": remark}
    difference = None if paper is None or result.mean is None else result.mean - paper
    return {
        "paper": _number(paper),
        "mean": _number(result.mean),
        "std": _number(result.std),
        "n": str(result.n),
        "seeds": str(result.wanted),
        "difference": _number(difference),
        CLASS_MEAN: _number(result.class_mean),
        **{f"seed {seed}": _number(accuracy) for seed, accuracy in result.accuracies.items()},
        **{name: _number(value) for name, value in result.domains.items()},
        **({"sources": "+".join(result.sources)} if result.sources else {}),
        "reason": result.reason,
        "remarks": "; ".join(filter(None, [remark, *result.remarks])),
    }


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}".rstrip("0").rstrip(".")
