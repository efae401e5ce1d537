"""Single layers on one blob inside a real net, run one at a time, and kernels that only read and write as mDA does."""

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path

import caffe
import numpy as np
from numba import njit, prange

from latent_domains.bench.extent import Shape


def _input_layer(name: str, shape: Shape) -> str:
    """Prototxt of an Input layer."""
    dims = " ".join(f"dim: {size}" for size in shape)
    return f'layer {{ name: "{name}" type: "Input" top: "{name}" input_param {{ shape {{ {dims} }} }} }}\n'


def mda_layer(name: str, domains: int) -> str:
    """Prototxt of an MDALayer on the blobs x and w<domains>."""
    parameters = json.dumps(json.dumps({"num_domains": domains}))
    return (
        f'layer {{ name: "{name}" type: "Python" bottom: "x" bottom: "w{domains}" top: "{name}" '
        f'python_param {{ module: "caffe_layers" layer: "MDALayer" param_str: {parameters} }} }}\n'
    )


def batch_norm_layer(name: str) -> str:
    """Prototxt of Caffe's BatchNorm on the blob x."""
    return f'layer {{ name: "{name}" type: "BatchNorm" bottom: "x" top: "{name}" }}\n'


def _make_net(text: str) -> caffe.Net:
    """The net of a text, in the TRAIN phase, with every gradient wanted."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.prototxt"
        path.write_text("force_backward: true\n" + text)
        return caffe.Net(str(path), caffe.TRAIN)


class LayerBench:
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
def read_and_write_forward(x, y, sums):
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
def read_and_write_backward(x, g, dx, sums):
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
