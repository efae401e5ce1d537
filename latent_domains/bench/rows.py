"""The rows of the speed table: what each measures, and the goal it is held against."""

from collections.abc import Callable

import numpy as np

from latent_domains.bench import memory, traffic, training
from latent_domains.bench.layers import LayerBench, Shape, batch_norm_layer, mda_layer
from latent_domains.bench.row import Measured, Row, milliseconds, text
from latent_domains.common.timing import compare

CONVOLUTIONAL: tuple[Shape, ...] = ((384, 32, 24, 24), (48, 64, 56, 56), (48, 64, 112, 112))
FULLY_CONNECTED: Shape = (128, 4096)


def against_batch_norm(shape: Shape) -> Callable[[float], Measured]:
    """How many times Caffe's BatchNorm takes as long as mDA with D = 3, forward and backward on one blob."""

    def measure(seconds: float) -> Measured:
        bench = LayerBench(shape, {"bn": batch_norm_layer("bn"), "mda": mda_layer("mda", 3)})
        result = compare(lambda: bench.step("bn"), lambda: bench.step("mda"), seconds)
        return Measured(result.ratio, f"BatchNorm {milliseconds(result.first)}, mDA {milliseconds(result.second)}")

    return measure


def against_traffic(shape: Shape) -> Callable[[float], Measured]:
    """mDA's time in units of a kernel that only reads and writes the same arrays: 3 forward, 5 backward."""

    def measure(seconds: float) -> Measured:
        bench = LayerBench(shape, {"mda": mda_layer("mda", 3)})
        blobs = bench.net.blobs
        rows = shape[0] * shape[1], -1
        x, y, g, dx = (
            array.reshape(rows) for array in (blobs["x"].data, blobs["mda"].data, blobs["mda"].diff, blobs["x"].diff)
        )
        sums = np.empty(len(x), np.float32)

        def bare() -> None:
            traffic.forward(x, y, sums)
            traffic.backward(x, g, dx, sums)

        result = compare(lambda: bench.step("mda"), bare, seconds)
        moved = 8 * x.nbytes / result.second / 1e9
        detail = f"mDA {milliseconds(result.first)}, bare {milliseconds(result.second)} ({moved:.0f} GB/s)"
        return Measured(result.ratio, detail)

    return measure


def many_domains(shape: Shape) -> Callable[[float], Measured]:
    """mDA's time with D = 8 in units of its time with D = 2."""

    def measure(seconds: float) -> Measured:
        bench = LayerBench(shape, {"eight": mda_layer("eight", 8), "two": mda_layer("two", 2)}, (2, 8))
        result = compare(lambda: bench.step("eight"), lambda: bench.step("two"), seconds)
        return Measured(result.ratio, f"D=8 {milliseconds(result.first)}, D=2 {milliseconds(result.second)}")

    return measure


def digits_iteration(seconds: float) -> Measured:
    """How many times the digits net with BatchNorm takes as long as with mDA, a whole iteration."""
    net = training.with_data_in_memory(training.read_net())
    # An iteration is long: it takes more time to see enough of them.
    result = compare(training.iteration(training.with_batch_norm(net)), training.iteration(net), 3 * seconds)
    return Measured(result.ratio, f"BatchNorm {milliseconds(result.first)}, mDA {milliseconds(result.second)}")


def added_memory(shape: Shape) -> Callable[[float], Measured]:
    """Resident memory that a layer adds beyond Caffe's own blobs, in percent of x."""

    def measure(_seconds: float) -> Measured:
        size = float(np.prod(shape)) * 4
        share = memory.added_share(shape)
        return Measured(100 * share, f"x {size / 1e6:.1f} MB, added {share * size / 1e6:.2f} MB")

    return measure


def _all_rows() -> tuple[Row, ...]:
    rows = [Row(f"batchnorm-{text(s)}", "BatchNorm / mDA", 4, False, "×", against_batch_norm(s)) for s in CONVOLUTIONAL]
    s = FULLY_CONNECTED
    rows.append(Row(f"batchnorm-{text(s)}", "BatchNorm / mDA", 1.5, False, "×", against_batch_norm(s)))
    rows += [Row(f"traffic-{text(s)}", "mDA / bare traffic", 1.3, True, "×", against_traffic(s)) for s in CONVOLUTIONAL]
    rows += [Row(f"domains-{text(s)}", "D=8 / D=2", 1.1, True, "×", many_domains(s)) for s in CONVOLUTIONAL]
    rows.append(Row("digits", "BatchNorm net / mDA net", 1, False, "×", digits_iteration))
    rows += [Row(f"memory-{text(s)}", "added / x", 5, True, "%", added_memory(s)) for s in CONVOLUTIONAL]
    return tuple(rows)


ROWS = _all_rows()
