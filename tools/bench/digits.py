"""Whole training iterations of the digits net with mDA everywhere, and of the same net with Caffe's BatchNorm."""

import tempfile
from collections.abc import Callable
from pathlib import Path

import caffe
import numpy as np
from caffe.proto import caffe_pb2
from google.protobuf import text_format

from tools import prototxt
from tools.program import ROOT

NET = ROOT / "prototxt/mnist/digits_train.prototxt"
IMAGE, CLASSES = (3, 28, 28), 10


def read_net(path: Path = NET) -> caffe_pb2.NetParameter:
    """The net of a prototxt file."""
    return prototxt.read(path, caffe_pb2.NetParameter(), "a net's prototxt")


def with_data_in_memory(net: caffe_pb2.NetParameter) -> caffe_pb2.NetParameter:
    """A copy whose Data layers are Input layers of the same tops and sizes."""
    copy = caffe_pb2.NetParameter()
    copy.CopyFrom(net)
    for layer in copy.layer:
        if layer.type != "Data":
            continue
        rows = layer.data_param.batch_size
        layer.type = "Input"
        layer.ClearField("data_param")
        layer.ClearField("transform_param")
        for shape in [(rows, *IMAGE), (rows,)][: len(layer.top)]:
            layer.input_param.shape.add().dim.extend(shape)
    return copy


def with_batch_norm(net: caffe_pb2.NetParameter) -> caffe_pb2.NetParameter:
    """A copy with Caffe's BatchNorm in place of every mDA layer; all else, the branch included, stays."""
    copy = caffe_pb2.NetParameter()
    copy.CopyFrom(net)
    for layer in copy.layer:
        if layer.type == "Python" and layer.python_param.layer == "MDALayer":
            layer.type = "BatchNorm"
            layer.ClearField("python_param")
            del layer.bottom[1:]
    return copy


def iteration(net: caffe_pb2.NetParameter) -> Callable[[], None]:
    """A function that does one solver iteration (forward, backward, update) of ``net`` on fixed random images."""
    with tempfile.TemporaryDirectory() as folder:
        train = Path(folder) / "train.prototxt"
        train.write_text(text_format.MessageToString(net))
        solver_file = Path(folder) / "solver.prototxt"
        # A rate this small keeps the numbers, and so the work, the same in every iteration.
        solver_file.write_text(
            f'train_net: "{train}" base_lr: 1e-8 lr_policy: "fixed" momentum: 0.9 max_iter: 100000 '
            f"display: 0 random_seed: 1 snapshot_after_train: false"
        )
        solver = caffe.SGDSolver(str(solver_file))
    rng = np.random.default_rng(0)
    for layer in net.layer:
        if layer.type == "Input":
            for top in layer.top:
                data = solver.net.blobs[top].data
                data[...] = rng.integers(0, CLASSES, data.shape) if data.ndim == 1 else rng.normal(size=data.shape)
    return lambda: solver.step(1)
