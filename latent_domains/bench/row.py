"""A row of a speed table: what it measures, the goal it is held against, and how it is printed."""

import argparse
import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch

from latent_domains.bench.layers import Shape
from latent_domains.common.arguments import seconds
from latent_domains.common.program import ProgramError


@dataclass(frozen=True)
class Measured:
    """A row's result: ``value`` against its goal, and in words what it was made of."""

    value: float
    detail: str


@dataclass(frozen=True)
class Row:
    """One row. The goal is met when value >= goal, or, with ``at_most``, when value <= goal; None is no goal."""

    name: str
    what: str
    goal: float | None
    at_most: bool
    unit: str
    measure: Callable[[float], Measured]

    def met(self, value: float) -> bool:
        """Whether ``value`` meets the goal."""
        if self.goal is None:
            return True
        return value <= self.goal if self.at_most else value >= self.goal


def text(shape: Shape) -> str:
    """384×32×24×24."""
    return "×".join(map(str, shape))


def milliseconds(seconds: float) -> str:
    """12.3 ms."""
    return f"{1e3 * seconds:.1f} ms"


def make_parser(program: str, description: str, names: Sequence[str]) -> argparse.ArgumentParser:
    """The options that every speed table has."""
    parser = argparse.ArgumentParser(prog=program, description=description, epilog="Rows: " + ", ".join(names))
    parser.add_argument("--only", nargs="+", metavar="ROW", help="rows to measure; patterns such as 'batchnorm-*' work")
    parser.add_argument("--list", action="store_true", help="print the names of the rows and stop")
    parser.add_argument("--seconds", type=seconds, default=4, help="time to spend on each comparison (default 4)")
    return parser


def choose(names: Sequence[str], patterns: Sequence[str] | None) -> list[str]:
    """The names that match any of the patterns of ``--only``; all without any. Raises ProgramError if none does."""
    chosen = [name for name in names if not patterns or any(fnmatch(name, pattern) for pattern in patterns)]
    if not chosen:
        raise ProgramError(f"--only {' '.join(patterns or [])}: no such row; the rows are {', '.join(names)}")
    return chosen


def print_rows(rows: Sequence[Row], duration: float, width: int) -> None:
    """Measure each row, spending ``duration`` seconds on it, and print its line; ``width`` is that of the names."""
    print(f"{'row':{width}}  {'what':23}  {'measured':>9}  {'goal':>7}  {'':6}  of")
    for row in rows:
        result = _measure(row, duration)
        goal = "" if row.goal is None else f"{'≤' if row.at_most else '≥'} {row.goal:g}{row.unit}"
        verdict = "" if row.goal is None else "met" if row.met(result.value) else "MISSED"
        measured = f"{result.value:.2f}{row.unit}"
        print(f"{row.name:{width}}  {row.what:23}  {measured:>9}  {goal:>7}  {verdict:6}  {result.detail}", flush=True)


def _measure(row: Row, duration: float) -> Measured:
    """Measure one row and let go of its nets."""
    try:
        return row.measure(duration)
    finally:
        gc.collect()
