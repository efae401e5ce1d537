"""Where the CPU time of a training iteration goes, and what its matrix products and its blobs take at the least.

``python -m latent_domains.bench.limit NET`` measures one of training.NETS in a fresh process, and prints JSON.
"""

import ctypes
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import caffe
import numpy as np
from caffe.proto.caffe_pb2 import LayerParameter, NetParameter

from latent_domains.bench import training
from latent_domains.bench.extent import Extent
from latent_domains.common.caffe_process import environment
from latent_domains.common.program import ROOT, ProgramError
from latent_domains.models.graph import kind

LARGE = (2048, 2048, 2048)

PART = Extent(0.25)
"""What each shape of a matrix product is measured for, and a copy of memory."""

Product = tuple[int, int, int]
"""Rows, columns and depth (M, N, K)."""


@dataclass(frozen=True)
class Limit:
    """Of one iteration on one thread, in seconds but for what is said."""

    shares: dict[str, float]
    """CPU time by kind of layer, forward and backward apart; the least of the rounds."""
    peak: float
    """GF/s of a large matrix product."""
    operations: float
    """GF of all matrix products."""
    products: float
    """Of the matrix products alone, each at the speed of its own shape."""
    bytes: float
    """GB that layers read and write, each of their blobs once."""
    bandwidth: float
    """GB/s of a copy (read and written)."""


def learning(net: caffe.Net, layers: NetParameter) -> dict[str, bool]:
    """The layers that have a backward pass, and whether their input's gradient is part of it."""
    found: dict[str, bool] = {}
    moving: set[str] = set()  # blobs that depend on something learnt
    for layer in layers.layer:
        below = bool(moving & set(layer.bottom))
        if below or (layer.name in net.params and _learns(layer)):
            found[layer.name] = below
            moving |= set(layer.top)
    return found


def _learns(layer: LayerParameter) -> bool:
    return not layer.param or any(param.lr_mult for param in layer.param)


def products(net: caffe.Net, layers: NetParameter) -> Counter[Product]:
    """The matrix products of an iteration and how often each is done: convolutions one image (and group) at a time.

    Depthwise convolutions have none.
    """
    found: Counter[Product] = Counter()
    backward = learning(net, layers)
    for layer in layers.layer:
        if layer.type not in ("Convolution", "InnerProduct"):
            continue
        weights, top = net.params[layer.name][0].data, net.blobs[layer.top[0]].data
        if layer.type == "Convolution":
            groups = layer.convolution_param.group
            if groups > 1 and weights.shape[:2] == (groups, 1):
                continue  # depthwise: computed without products, as fast as its blobs are read
            m, n, k = weights.shape[0] // groups, int(np.prod(top.shape[2:])), int(np.prod(weights.shape[1:]))
            times, of_weights, of_input = top.shape[0] * groups, (m, k, n), (k, n, m)
        else:
            m, (n, k) = top.shape[0], weights.shape
            times, of_weights, of_input = 1, (n, k, m), (m, k, n)
        found[m, n, k] += times
        if layer.name in backward and _learns(layer):
            found[of_weights] += times
        if backward.get(layer.name):
            found[of_input] += times
    return found


def _openblas() -> ctypes.CDLL:
    """The OpenBLAS that Caffe is linked with; NumPy has its own."""
    files = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "libopenblas" in line}
    found = [file for file in sorted(files) if Path(file).name.startswith("libopenblas") and ".libs" not in file]
    if not found:
        raise ProgramError("this Caffe is not linked with OpenBLAS: the speed of its matrix products is not measured")
    return ctypes.CDLL(found[0])


def product_speed(shape: Product, seconds: float) -> float:
    """Operations a second of SGEMM of this shape on one thread."""
    sgemm = _openblas().cblas_sgemm
    (m, n, k), one, zero = shape, ctypes.c_float(1), ctypes.c_float(0)
    rng = np.random.default_rng(0)
    arrays = rng.random((m, k), np.float32), rng.random((k, n), np.float32), np.zeros((m, n), np.float32)
    a, b, c = (array.ctypes.data_as(ctypes.c_void_p) for array in arrays)
    # Row-major, neither factor transposed.
    return 2 * m * n * k / _fastest(lambda: sgemm(101, 111, 111, m, n, k, one, a, k, b, n, zero, c, n), seconds)


def _fastest(step: Callable[[], object], seconds: float) -> float:
    """The least CPU seconds of a step on this thread."""
    step()
    best, end = float("inf"), time.perf_counter() + seconds
    while best == float("inf") or time.perf_counter() < end:
        start = time.thread_time()
        step()
        best = min(best, time.thread_time() - start)
    return best


def _copy_speed(seconds: float) -> float:
    """B/s of copying memory, one thread; a byte that is copied is read and written."""
    source = np.ones(2**26, np.uint8)
    target = np.empty_like(source)
    return 2 * source.nbytes / _fastest(lambda: np.copyto(target, source), seconds)


def moved(net: caffe.Net, layers: NetParameter) -> int:
    """Bytes that layers read and write at the least.

    Forward the input and the output; backward the output's gradient and the input and, if it is wanted, its gradient.
    """
    backward = learning(net, layers)
    count = 0
    for layer in layers.layer:
        bottoms, tops = (sum(net.blobs[name].count for name in names) for names in (layer.bottom, layer.top))
        count += bottoms + tops
        if layer.name in backward:
            count += tops + bottoms + backward[layer.name] * bottoms
    return 4 * count


def shares(net: caffe.Net, layers: NetParameter, rounds: int) -> dict[str, float]:
    """CPU seconds by kind of layer and direction, each layer's least of the rounds."""
    kinds = {layer.name: kind(layer) for layer in layers.layer}
    names = list(net._layer_names)
    least: dict[tuple[int, str], float] = {}
    for _ in range(rounds):
        for i in range(len(names)):
            _take(least, (i, "forward"), lambda i=i: net._forward(i, i))
        for i in reversed(range(len(names))):
            _take(least, (i, "backward"), lambda i=i: net._backward(i, i))
    total: Counter[str] = Counter()
    for (i, direction), seconds in least.items():
        total[f"{kinds.get(names[i], 'Split')}, {direction}"] += seconds  # Caffe inserts the Split layers itself
    return dict(total.most_common())


def _take(least: dict[tuple[int, str], float], key: tuple[int, str], step: Callable[[], object]) -> None:
    start = time.process_time()
    step()
    least[key] = min(least.get(key, float("inf")), time.process_time() - start)


def measure(name: str, rounds: int, extent: Extent) -> Limit:
    """The limit of one of training.NETS, in this process."""
    layers, seconds = training.in_memory(name, extent), extent.seconds
    solver = training.make_solver(layers, training.RATE)
    solver.step(1)
    done = products(solver.net, layers)
    speeds = {shape: product_speed(shape, seconds) for shape in done}
    work = {shape: 2 * float(np.prod(shape)) * times for shape, times in done.items()}
    return Limit(
        shares(solver.net, layers, rounds),
        product_speed(extent.shape(LARGE), 4 * seconds) / 1e9,
        sum(work.values()) / 1e9,
        sum(operations / speeds[shape] for shape, operations in work.items()),
        moved(solver.net, layers) / 1e9,
        _copy_speed(seconds) / 1e9,
    )


def measured_apart(name: str, rounds: int, *, smallest: bool) -> Limit:
    """:func:`measure` in a process of its own, on one thread. Raises ProgramError if it fails."""
    command = [sys.executable, "-m", __name__, name, str(rounds), *["--smallest"][:smallest]]
    variables = environment(1) | {"GLOG_minloglevel": "2"}
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ProgramError(f"{' '.join(command[1:])} failed: {done.stderr.strip()[-500:]}")
    return Limit(**json.loads(done.stdout))


def lines(name: str, limit: Limit) -> list[str]:
    """What the table says of it."""
    total = sum(limit.shares.values())
    parts = [
        f"{part} {1e3 * seconds:.0f} ms ({100 * seconds / total:.0f} %)"
        for part, seconds in limit.shares.items()
        if seconds >= 0.01 * total
    ]
    return [
        f"{name}: {1e3 * total:.0f} ms of CPU time on one thread: {', '.join(parts)}",
        f"  limit: {limit.operations:.1f} GF of matrix products, {1e3 * limit.products:.0f} ms at the speed of their "
        f"shapes ({limit.operations / limit.products:.0f} GF/s; large ones {limit.peak:.0f} GF/s); "
        f"{limit.bytes:.1f} GB of blobs, {1e3 * limit.bytes / limit.bandwidth:.0f} ms at a copy's "
        f"{limit.bandwidth:.0f} GB/s",
    ]


if __name__ == "__main__":
    of = Extent(0, smallest=True) if sys.argv[3:] else PART
    print(json.dumps(asdict(measure(sys.argv[1], int(sys.argv[2]), of))))
