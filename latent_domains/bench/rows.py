"""The rows of a speed table: what each measures, the goal it is held against, and how it is printed."""

import argparse
import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from textwrap import fill

import numpy as np

from latent_domains.bench import memory, training
from latent_domains.bench.extent import Extent, Shape
from latent_domains.bench.layers import (
    LayerBench,
    batch_norm_layer,
    mda_layer,
    read_and_write_backward,
    read_and_write_forward,
)
from latent_domains.common.arguments import program_parser, seconds
from latent_domains.common.program import ProgramError
from latent_domains.common.timing import compare
from latent_domains.common.wording import by


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
    measure: Callable[[Extent], Measured]

    def met(self, value: float) -> bool:
        """Whether ``value`` meets the goal."""
        if self.goal is None:
            return True
        return value <= self.goal if self.at_most else value >= self.goal


def _milliseconds(seconds: float) -> str:
    """12.3 ms."""
    return f"{1e3 * seconds:.1f} ms"


def make_parser(program: str, description: str, names: Sequence[str]) -> argparse.ArgumentParser:
    """The parser of a speed table's program, with the options that each has; ``names`` are those of the rows."""
    parser = program_parser(program, description)
    parser.epilog = fill("Rows: " + ", ".join(names), 100, break_on_hyphens=False)
    parser.add_argument("--only", nargs="+", metavar="ROW", help="rows to measure; patterns such as 'batchnorm-*' work")
    parser.add_argument("--list", action="store_true", help="print the names of the rows and stop")
    parser.add_argument("--seconds", type=seconds, default=4, help="time to spend on each comparison (default: 4)")
    parser.add_argument("--smallest", action="store_true", help="start each row once on little data: see that it runs")
    return parser


def choose(names: Sequence[str], patterns: Sequence[str] | None) -> list[str]:
    """The names that match any of the patterns of ``--only``; all without any. Raises ProgramError if none does."""
    chosen = [name for name in names if not patterns or any(fnmatch(name, pattern) for pattern in patterns)]
    if not chosen:
        raise ProgramError(f"--only {' '.join(patterns or [])}: no such row; the rows are {', '.join(names)}")
    return chosen


def extent_of(options: argparse.Namespace) -> Extent:
    """What the options of :func:`make_parser` say."""
    return Extent(0, smallest=True) if options.smallest else Extent(options.seconds)


def print_rows(rows: Sequence[Row], extent: Extent, width: int) -> None:
    """Measure each row and print its line; ``width`` is that of the names."""
    print(f"{'row':{width}}  {'what':23}  {'measured':>9}  {'goal':>7}  {'':6}  of")
    for row in rows:
        result = _measure(row, extent)
        goal = "" if row.goal is None else f"{'≤' if row.at_most else '≥'} {row.goal:g}{row.unit}"
        verdict = "" if row.goal is None else "met" if row.met(result.value) else "MISSED"
        measured = f"{result.value:.2f}{row.unit}"
        print(f"{row.name:{width}}  {row.what:23}  {measured:>9}  {goal:>7}  {verdict:6}  {result.detail}", flush=True)


def _measure(row: Row, extent: Extent) -> Measured:
    """Measure one row and let go of its nets."""
    try:
        return row.measure(extent)
    finally:
        gc.collect()


_CONVOLUTIONAL: tuple[Shape, ...] = ((384, 32, 24, 24), (48, 64, 56, 56), (48, 64, 112, 112))
_FULLY_CONNECTED: Shape = (128, 4096)
_SMALL: Shape = (384, 10)


def _against_batch_norm(shape: Shape) -> Callable[[Extent], Measured]:
    """How many times Caffe's BatchNorm takes as long as mDA with D = 3, forward and backward on one blob."""

    def measure(extent: Extent) -> Measured:
        bench = LayerBench(extent.shape(shape), {"bn": batch_norm_layer("bn"), "mda": mda_layer("mda", 3)})
        result = compare(lambda: bench.step("bn"), lambda: bench.step("mda"), extent.seconds)
        return Measured(result.ratio, f"BatchNorm {_milliseconds(result.first)}, mDA {_milliseconds(result.second)}")

    return measure


def _against_traffic(shape: Shape) -> Callable[[Extent], Measured]:
    """mDA's time in units of a kernel that only reads and writes the same arrays: 3 forward, 5 backward."""

    def measure(extent: Extent) -> Measured:
        bench = LayerBench(extent.shape(shape), {"mda": mda_layer("mda", 3)})
        blobs = bench.net.blobs
        rows = blobs["x"].shape[0] * blobs["x"].shape[1], -1
        x, y, g, dx = (
            array.reshape(rows) for array in (blobs["x"].data, blobs["mda"].data, blobs["mda"].diff, blobs["x"].diff)
        )
        sums = np.empty(len(x), np.float32)

        def bare() -> None:
            read_and_write_forward(x, y, sums)
            read_and_write_backward(x, g, dx, sums)

        result = compare(lambda: bench.step("mda"), bare, extent.seconds)
        moved = 8 * x.nbytes / result.second / 1e9
        detail = f"mDA {_milliseconds(result.first)}, bare {_milliseconds(result.second)} ({moved:.0f} GB/s)"
        return Measured(result.ratio, detail)

    return measure


def _many_domains(shape: Shape) -> Callable[[Extent], Measured]:
    """mDA's time with D = 8 in units of its time with D = 2."""

    def measure(extent: Extent) -> Measured:
        bench = LayerBench(extent.shape(shape), {"eight": mda_layer("eight", 8), "two": mda_layer("two", 2)}, (2, 8))
        result = compare(lambda: bench.step("eight"), lambda: bench.step("two"), extent.seconds)
        return Measured(result.ratio, f"D=8 {_milliseconds(result.first)}, D=2 {_milliseconds(result.second)}")

    return measure


def _alone(shape: Shape) -> Callable[[Extent], Measured]:
    """mDA's time with D = 3 in milliseconds, beside BatchNorm's: on a small blob most of it is calling Python."""

    def measure(extent: Extent) -> Measured:
        bench = LayerBench(extent.shape(shape), {"bn": batch_norm_layer("bn"), "mda": mda_layer("mda", 3)})
        result = compare(lambda: bench.step("bn"), lambda: bench.step("mda"), extent.seconds)
        return Measured(1e3 * result.second, f"BatchNorm {1e3 * result.first:.2f} ms")

    return measure


def _digits_iteration(extent: Extent) -> Measured:
    """How many times the digits net with BatchNorm takes as long as with mDA, a whole iteration."""
    net = training.in_memory("digits", extent)
    # An iteration is long: it takes more time to see enough of them.
    result = compare(training.iteration(training.with_batch_norm(net)), training.iteration(net), 3 * extent.seconds)
    return Measured(result.ratio, f"BatchNorm {_milliseconds(result.first)}, mDA {_milliseconds(result.second)}")


def _added_memory(shape: Shape) -> Callable[[Extent], Measured]:
    """Resident memory that a layer adds beyond Caffe's own blobs, in percent of x."""

    def measure(extent: Extent) -> Measured:
        measured = extent.shape(shape)
        size = float(np.prod(measured)) * 4
        share = memory.added_share(measured)
        return Measured(100 * share, f"x {size / 1e6:.1f} MB, added {share * size / 1e6:.2f} MB")

    return measure


def _all_rows() -> tuple[Row, ...]:
    # BatchNorm has threads of its own (docker/patches/14-cpu-threads.patch): mDA, which does more, need not be slower.
    rows = [Row(f"batchnorm-{by(s)}", "BatchNorm / mDA", 1, False, "×", _against_batch_norm(s)) for s in _CONVOLUTIONAL]
    s = _FULLY_CONNECTED
    rows.append(Row(f"batchnorm-{by(s)}", "BatchNorm / mDA", 1.5, False, "×", _against_batch_norm(s)))
    rows += [Row(f"traffic-{by(s)}", "mDA / bare traffic", 1.3, True, "×", _against_traffic(s)) for s in _CONVOLUTIONAL]
    rows += [Row(f"domains-{by(s)}", "D=8 / D=2", 1.1, True, "×", _many_domains(s)) for s in _CONVOLUTIONAL]
    rows.append(Row(f"domains-{by(s)}", "D=8 / D=2", 1.2, True, "×", _many_domains(s)))
    rows.append(Row(f"small-{by(_SMALL)}", "mDA", 0.12, True, " ms", _alone(_SMALL)))
    rows.append(Row("digits", "BatchNorm net / mDA net", 1, False, "×", _digits_iteration))
    rows += [Row(f"memory-{by(s)}", "added / x", 5, True, "%", _added_memory(s)) for s in _CONVOLUTIONAL]
    return tuple(rows)


ROWS = _all_rows()
