"""Rows of the speed table of the layers on a GPU."""

import time
from collections.abc import Callable
from statistics import median

from latent_domains.bench import training
from latent_domains.bench.extent import Extent, Shape
from latent_domains.bench.layers import LayerBench, batch_norm_layer, mda_layer
from latent_domains.bench.rows import Measured, Row
from latent_domains.common.timing import compare
from latent_domains.common.wording import by

SHAPES: tuple[Shape, ...] = ((48, 64, 112, 112), (48, 64, 56, 56), (48, 512, 7, 7), (384, 32, 24, 24), (256, 4096))

# mDA reads and writes eight arrays of x's size, forward and backward; a copy reads one and writes one.
COPIES = 4

# Steps between two looks at the clock: the host only starts kernels, and waits after the last.
STEPS = 20

Wait = Callable[[], None]


def together(step: Callable[[], object], wait: Wait) -> Wait:
    """A function that does STEPS steps and waits for the device."""

    def run_steps() -> None:
        for _ in range(STEPS):
            step()
        wait()

    return run_steps


def _host_time(step: Callable[[], object], wait: Wait) -> float:
    """Seconds that the host takes to start STEPS steps (median of five). Near the whole time it is the limit."""
    times = []
    for _ in range(5):
        wait()
        start = time.perf_counter()
        for _ in range(STEPS):
            step()
        times.append(time.perf_counter() - start)
    wait()
    return median(times)


def against_copy(
    shape: Shape, wait: Wait, make_copy: Callable[[int], Callable[[], None]]
) -> Callable[[Extent], Measured]:
    """mDA's time, D = 3, in units of that of copying as many bytes as it reads and writes.

    ``make_copy(bytes)`` makes a function that copies that many bytes within the device.
    """

    def measure(extent: Extent) -> Measured:
        bench = LayerBench(extent.shape(shape), {"mda": mda_layer("mda", 3)})
        size = 4 * bench.net.blobs["x"].count
        copy = make_copy(size)

        def copies() -> None:
            for _ in range(COPIES):
                copy()

        result = compare(together(lambda: bench.step("mda"), wait), together(copies, wait), extent.seconds)
        speed = STEPS * 2 * COPIES * size / result.second / 1e9
        started = _host_time(lambda: bench.step("mda"), wait)
        detail = f"mDA {_step(result.first)}, of which the host {_step(started)}"
        return Measured(result.ratio, f"{detail}; copy {_step(result.second)} ({speed:.0f} GB/s)")

    return measure


def against_batch_norm(shape: Shape, wait: Wait) -> Callable[[Extent], Measured]:
    """How many times Caffe's BatchNorm takes as long as mDA with D = 3, forward and backward on one blob."""

    def measure(extent: Extent) -> Measured:
        bench = LayerBench(extent.shape(shape), {"bn": batch_norm_layer("bn"), "mda": mda_layer("mda", 3)})
        sides = (together(lambda name=name: bench.step(name), wait) for name in ("bn", "mda"))
        result = compare(*sides, extent.seconds)
        return Measured(result.ratio, f"BatchNorm {_step(result.first)}, mDA {_step(result.second)}")

    return measure


def _training_iteration(name: str, wait: Wait) -> Callable[[Extent], Measured]:
    """The time of a training iteration of a net in units of that with BatchNorm in place of mDA."""

    def measure(extent: Extent) -> Measured:
        ours = training.in_memory(name, extent)
        variants = ours, training.with_batch_norm(ours)
        sides = (together(training.iteration(variant), wait) for variant in variants)
        result = compare(*sides, 3 * extent.seconds)
        return Measured(result.ratio, f"mDA {_step(result.first)}, BatchNorm {_step(result.second)}")

    return measure


def _step(duration: float) -> str:
    return f"{1e3 * duration / STEPS:.3f} ms"


def make_rows(wait: Wait, make_copy: Callable[[int], Callable[[], None]]) -> tuple[Row, ...]:
    """The rows; a goal stands where one was set, for the largest blob and for the whole iteration."""
    rows = []
    for shape in SHAPES:
        goals = (1.5, 1.0) if shape == SHAPES[0] else (None, None)
        rows.append(Row(f"copy-{by(shape)}", "mDA / copy", goals[0], True, "×", against_copy(shape, wait, make_copy)))
        name = f"batchnorm-{by(shape)}"
        rows.append(Row(name, "BatchNorm / mDA", goals[1], False, "×", against_batch_norm(shape, wait)))
    for name, goal in (("resnet18", 1.15), ("digits", None)):
        rows.append(Row(name, "mDA net / BatchNorm net", goal, True, "×", _training_iteration(name, wait)))
    return tuple(rows)
