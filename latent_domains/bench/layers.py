"""mDA layers beside BatchNorm and beside memory traffic: single layers on one blob, and the digits' whole net."""

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path

import caffe
import numpy as np
from numba import njit, prange

from latent_domains.bench import training
from latent_domains.bench.rows import CPU, Device, Extent, Row, Shape, Step, ratio
from latent_domains.common.wording import by


def _input_layer(name: str, shape: Shape) -> str:
    """Prototxt of an Input layer."""
    dims = " ".join(f"dim: {size}" for size in shape)
    return f'layer {{ name: "{name}" type: "Input" top: "{name}" input_param {{ shape {{ {dims} }} }} }}\n'


def _mda_layer(name: str, domains: int) -> str:
    """Prototxt of an MDALayer on the blobs x and w<domains>."""
    parameters = json.dumps(json.dumps({"num_domains": domains}))
    return (
        f'layer {{ name: "{name}" type: "Python" bottom: "x" bottom: "w{domains}" top: "{name}" '
        f'python_param {{ module: "caffe_layers" layer: "MDALayer" param_str: {parameters} }} }}\n'
    )


def _batch_norm_layer(name: str) -> str:
    """Prototxt of Caffe's BatchNorm on the blob x."""
    return f'layer {{ name: "{name}" type: "BatchNorm" bottom: "x" top: "{name}" }}\n'


def _make_net(text: str) -> caffe.Net:
    """The net of a text, in the TRAIN phase, with every gradient wanted."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.prototxt"
        path.write_text("force_backward: true\n" + text)
        return caffe.Net(str(path), caffe.TRAIN)


class _LayerBench:
    """Layers that all read one blob x of random numbers; ``step(name)`` is forward and backward of one of them."""

    def __init__(self, shape: Shape, layers: Mapping[str, str], domains: tuple[int, ...] = (3,)) -> None:
        text = _input_layer("x", shape)
        text += "".join(_input_layer(f"w{d}", (shape[0], d)) for d in domains)
        self.net = _make_net(text + "".join(layers.values()))
        rng = np.random.default_rng(0)
        self.net.blobs["x"].data[...] = rng.standard_normal(shape, np.float32)
        for d in domains:
            self.net.blobs[f"w{d}"].data[...] = rng.dirichlet(np.ones(d), shape[0])
        self._index = {name: list(self.net._layer_names).index(name) for name in layers}
        self.net.forward()
        for name in layers:
            self.net.blobs[name].diff[...] = rng.standard_normal(shape, np.float32)
        self.net.backward()

    def step(self, name: str) -> None:
        """Forward and backward of one layer, without its neighbours."""
        index = self._index[name]
        self.net._forward(index, index)
        self.net._backward(index, index)


_FASTMATH = {"reassoc", "contract", "nsz"}


@njit(parallel=True, fastmath=_FASTMATH)
def _read_and_write_forward(x, y, sums):
    """Read x; read x and write y. Arrays are R×S, ``sums`` R."""
    for r in prange(x.shape[0]):
        total = np.float32(0)
        row = x[r]  # a row of its own: sums over two indices are gathered one by one
        for s in range(row.size):
            total += row[s]
        sums[r] = total
    for r in prange(x.shape[0]):
        for s in range(x.shape[1]):
            y[r, s] = x[r, s] + sums[r]


@njit(parallel=True, fastmath=_FASTMATH)
def _read_and_write_backward(x, g, dx, sums):
    """Read x and g; read x and g and write dx. Arrays are R×S, ``sums`` R."""
    for r in prange(x.shape[0]):
        total = np.float32(0)
        row, grad = x[r], g[r]
        for s in range(row.size):
            total += row[s] * grad[s]
        sums[r] = total
    for r in prange(x.shape[0]):
        for s in range(x.shape[1]):
            dx[r, s] = g[r, s] + sums[r] * x[r, s]


def _mda_and_batch_norm(shape: Shape, device: Device = CPU) -> dict[str, Step]:
    """Forward and backward of mDA with D = 3 and of Caffe's BatchNorm."""
    bench = _LayerBench(shape, {"BatchNorm": _batch_norm_layer("BatchNorm"), "mDA": _mda_layer("mDA", 3)})
    return {name: lambda name=name: bench.step(name) for name in ("BatchNorm", "mDA")}


def _mda_and_traffic(shape: Shape) -> dict[str, Step]:
    """mDA, and kernels that only read and write the same arrays: 3 forward, 5 backward."""
    bench = _LayerBench(shape, {"mDA": _mda_layer("mDA", 3)})
    blobs = bench.net.blobs
    rows = shape[0] * shape[1], -1
    arrays = blobs["x"].data, blobs["mDA"].data, blobs["mDA"].diff, blobs["x"].diff
    x, y, g, dx = (array.reshape(rows) for array in arrays)
    sums = np.empty(len(x), np.float32)

    def bare() -> None:
        _read_and_write_forward(x, y, sums)
        _read_and_write_backward(x, g, dx, sums)

    return {"mDA": lambda: bench.step("mDA"), "bare": bare}


def _eight_and_two(shape: Shape) -> dict[str, Step]:
    """mDA with eight domains and with two."""
    bench = _LayerBench(shape, {f"D={d}": _mda_layer(f"D={d}", d) for d in (8, 2)}, (2, 8))
    return {name: lambda name=name: bench.step(name) for name in ("D=8", "D=2")}


def _mda_and_copies(shape: Shape, device: Device) -> dict[str, Step]:
    """mDA, and copies of the eight arrays of x's size that it reads or writes; a copy reads one and writes one."""
    bench = _LayerBench(shape, {"mDA": _mda_layer("mDA", 3)})
    copy = device.make_copy(4 * bench.net.blobs["x"].count)

    def copies() -> None:
        for _ in range(4):
            copy()

    return {"mDA": lambda: bench.step("mDA"), "copy": copies}


def _iterations(name: str, extent: Extent) -> dict[str, Step]:
    """Training iterations of a net with mDA and of the same with BatchNorm in its place."""
    net = training.in_memory(name, smallest=extent.smallest)
    return {"mDA": training.iteration(net), "BatchNorm": training.iteration(training.with_batch_norm(net))}


_CONVOLUTIONAL: tuple[Shape, ...] = ((384, 32, 24, 24), (48, 64, 56, 56), (48, 64, 112, 112))
_FULLY_CONNECTED: Shape = (128, 4096)
_SMALL: Shape = (384, 10)
_ON_A_GPU: tuple[Shape, ...] = ((48, 64, 112, 112), (48, 64, 56, 56), (48, 512, 7, 7), (384, 32, 24, 24), (256, 4096))


def cpu_rows() -> list[Row]:
    """The rows of the layers on a CPU. A goal of BatchNorm / mDA is 1 behind convolutions, where mDA does more."""
    rows = []
    for prefix, what, make, at_most, goal, goal_of_fc in (
        ("batchnorm", "BatchNorm / mDA", _mda_and_batch_norm, False, 1, 1.5),
        ("traffic", "mDA / bare traffic", _mda_and_traffic, True, 1.3, None),
        ("domains", "D=8 / D=2", _eight_and_two, True, 1.1, 1.2),
    ):
        goals = dict.fromkeys(_CONVOLUTIONAL, goal) | ({_FULLY_CONNECTED: goal_of_fc} if goal_of_fc else {})
        for shape, of_shape in goals.items():
            measure = ratio(lambda extent, make=make, shape=shape: make(extent.shape(shape)))
            rows.append(Row(f"{prefix}-{by(shape)}", what, of_shape, at_most, measure))
    alone = ratio(lambda extent: _mda_and_batch_norm(extent.shape(_SMALL)), value=lambda found: 1e3 * found.second)
    rows.append(Row(f"small-{by(_SMALL)}", "mDA", 0.12, True, alone, " ms"))
    whole = ratio(lambda extent: dict(reversed(_iterations("digits", extent).items())))
    return [*rows, Row("digits", "BatchNorm net / mDA net", 1, False, whole)]


def gpu_rows(device: Device) -> list[Row]:
    """The rows of the layers on a GPU, with goals for the largest blob and the whole iteration."""
    rows = []
    for shape in _ON_A_GPU:
        goals = (1.5, 1.0) if shape == _ON_A_GPU[0] else (None, None)
        for prefix, what, make, goal, at_most in (
            ("copy", "mDA / copy", _mda_and_copies, goals[0], True),
            ("batchnorm", "BatchNorm / mDA", _mda_and_batch_norm, goals[1], False),
        ):
            measure = ratio(lambda extent, make=make, shape=shape: make(extent.shape(shape), device), device)
            rows.append(Row(f"{prefix}-{by(shape)}", what, goal, at_most, measure))
    for name, goal in (("resnet18", 1.15), ("digits", None)):
        measure = ratio(lambda extent, name=name: _iterations(name, extent), device)
        rows.append(Row(name, "mDA net / BatchNorm net", goal, True, measure))
    return rows
