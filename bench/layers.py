"""mDA compared with BatchNorm, and on a GPU with copies: single layers on one blob, and the whole net of digits."""

import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import caffe
import numpy as np

from bench import training
from bench.rows import Extent, Shape, SpeedRow, Step, TimedDevice, ratio
from latent_domains.common.wording import by


class _LayerBench:
    """Layers that all read the same random x; mDA layers also read the same w.

    Each of ``steps`` is forward and backward of only one layer.
    """

    def __init__(self, shape: Shape, domains: Mapping[str, int | None]) -> None:
        """Make a layer for each name in ``domains``: mDA with that many domains, or Caffe's BatchNorm (None)."""
        spec = caffe.NetSpec()
        spec.x = caffe.layers.Input(shape=[{"dim": list(shape)}])
        for name, d in domains.items():
            if d is None:
                spec[name] = caffe.layers.BatchNorm(spec.x)
            else:
                spec[f"w_{name}"] = caffe.layers.Input(shape=[{"dim": [shape[0], d]}])
                python = {"module": "caffe_layers", "layer": "MDALayer", "param_str": f'{{"num_domains": {d}}}'}
                spec[name] = caffe.layers.Python(spec.x, spec[f"w_{name}"], python_param=python)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "net.prototxt"
            path.write_text(f"force_backward: true\n{spec.to_proto()}")
            self.net = caffe.Net(str(path), caffe.TRAIN)
        rng = np.random.default_rng(0)
        self.net.blobs["x"].data[...] = rng.standard_normal(shape, np.float32)
        for name, d in domains.items():
            if d is not None:
                self.net.blobs[f"w_{name}"].data[...] = rng.dirichlet(np.ones(d), shape[0])
        self.net.forward()
        for name in domains:
            self.net.blobs[name].diff[...] = rng.standard_normal(shape, np.float32)
        self.net.backward()
        self.steps = {name: partial(self._step, list(self.net._layer_names).index(name)) for name in domains}

    def _step(self, index: int) -> None:
        self.net._forward(index, index)
        self.net._backward(index, index)


def _mda_and_batch_norm(shape: Shape) -> dict[str, Step]:
    """Return steps of mDA with D = 3 and of Caffe's BatchNorm."""
    return _LayerBench(shape, {"BatchNorm": None, "mDA": 3}).steps


def _mda_and_copies(shape: Shape, device: TimedDevice) -> dict[str, Step]:
    """Return steps of mDA, and copies.

    mDA reads or writes eight arrays of x's size; a copy reads one and writes one.
    """
    bench = _LayerBench(shape, {"mDA": 3})
    copy = device.make_copy(4 * bench.net.blobs["x"].count)

    def copies() -> None:
        for _ in range(4):
            copy()

    return {**bench.steps, "copy": copies}


def _iterations(name: str, extent: Extent) -> dict[str, Step]:
    """Return training iterations of a net with mDA and of the same net with BatchNorm instead."""
    settings = training.settings(name, smallest=extent.smallest)
    nets = {"mDA": True, "BatchNorm": False}
    return {name: training.iteration(training.net_in_memory(with_mda=mda, **settings)) for name, mda in nets.items()}


_CONVOLUTIONAL: tuple[Shape, ...] = ((384, 32, 24, 24), (48, 64, 56, 56), (48, 64, 112, 112))
_FULLY_CONNECTED: Shape = (128, 4096)
_ON_A_GPU: tuple[Shape, ...] = ((48, 64, 112, 112), (48, 64, 56, 56), (48, 512, 7, 7), (384, 32, 24, 24), (256, 4096))


def cpu_rows() -> list[SpeedRow]:
    """Return the rows of the layers on a CPU.

    After convolutions the goal of BatchNorm / mDA is 1, although mDA does more there.
    """
    rows = []
    for prefix, what, make, at_most, goal, goal_of_fc in (
        ("batchnorm", "BatchNorm / mDA", _mda_and_batch_norm, False, 1, 1.5),
        ("domains", "D=8 / D=2", lambda shape: _LayerBench(shape, {"D=8": 8, "D=2": 2}).steps, True, 1.1, 1.2),
    ):
        goals = dict.fromkeys(_CONVOLUTIONAL, goal) | {_FULLY_CONNECTED: goal_of_fc}
        for shape, of_shape in goals.items():
            measure = ratio(lambda extent, make=make, shape=shape: make(extent.shape(shape)))
            rows.append(SpeedRow(f"{prefix}-{by(shape)}", what, of_shape, at_most, measure))
    whole = ratio(lambda extent: dict(reversed(_iterations("digits", extent).items())))
    return [*rows, SpeedRow("digits", "BatchNorm net / mDA net", 1, False, whole)]


def gpu_rows(device: TimedDevice) -> list[SpeedRow]:
    """Return the rows of the layers on a GPU, with goals for the largest blob and the whole iteration."""
    rows = []
    for shape in _ON_A_GPU:
        goals = (1.5, 1.0) if shape == _ON_A_GPU[0] else (None, None)
        for prefix, what, make, goal, at_most in (
            ("copy", "mDA / copy", partial(_mda_and_copies, device=device), goals[0], True),
            ("batchnorm", "BatchNorm / mDA", _mda_and_batch_norm, goals[1], False),
        ):
            measure = ratio(lambda extent, make=make, shape=shape: make(extent.shape(shape)), device)
            rows.append(SpeedRow(f"{prefix}-{by(shape)}", what, goal, at_most, measure))
    for name, goal in (("resnet18", 1.15), ("digits", None)):
        measure = ratio(lambda extent, name=name: _iterations(name, extent), device)
        rows.append(SpeedRow(name, "mDA net / BatchNorm net", goal, True, measure))
    return rows
