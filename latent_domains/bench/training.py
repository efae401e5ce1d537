"""Training iterations of nets with mDA and with BatchNorm in its place."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import caffe
import numpy as np
from caffe.proto import caffe_pb2
from google.protobuf import text_format

from latent_domains.common.program import ROOT
from latent_domains.experiment.experiment import make_experiment
from latent_domains.models.gate import read_net
from latent_domains.models.graph import kind
from latent_domains.nets.training_files import make_nets_and_solver


@dataclass(frozen=True)
class BenchNet:
    """A committed net: files of the generator, channels × height × width of an image."""

    stem: str
    image: tuple[int, int, int]
    any_size: bool = False
    """Whether it takes other images: it pools whatever its convolutions leave."""

    def read(self) -> caffe_pb2.NetParameter:
        """The training net."""
        return read_net(ROOT / f"prototxt/{self.stem}_train.prototxt", ["Data"])


NETS = {
    "digits": BenchNet("mnist/digits", (3, 28, 28)),
    "resnet18": BenchNet("resnet18/pacs", (3, 224, 224), any_size=True),
    "alexnet": BenchNet("alexnet/office31", (3, 227, 227)),
    "lite0": BenchNet("lite0/pacs", (3, 224, 224), any_size=True),
    "lite0-128": BenchNet("lite0/pacs", (3, 128, 128), any_size=True),
}
# The blob of labelled images' class scores, by which the generator's nets call it.
SCORES = "scores_source"

RATE = 1e-8
"""The learning rate: one this small keeps the numbers, and so the work, the same in every iteration."""


def with_data_in_memory(net: caffe_pb2.NetParameter, image: tuple[int, int, int]) -> caffe_pb2.NetParameter:
    """A copy whose Data layers are Input layers of the same tops and sizes; ``image`` is what the net sees of one."""
    copy = caffe_pb2.NetParameter()
    copy.CopyFrom(net)
    for layer in copy.layer:
        if layer.type != "Data":
            continue
        rows = layer.data_param.batch_size
        layer.type = "Input"
        layer.ClearField("data_param")
        layer.ClearField("transform_param")
        for shape in [(rows, *image), (rows,)][: len(layer.top)]:
            layer.input_param.shape.add().dim.extend(shape)
    return copy


def in_memory(name: str, *, smallest: bool = False) -> caffe_pb2.NetParameter:
    """The training net of NETS, its data in memory: all of its batches or ``smallest`` ones."""
    net, image = NETS[name].read(), NETS[name].image
    if smallest:  # fewer and smaller images
        network, dataset = NETS[name].stem.split("/")
        experiment = make_experiment(dataset, "mda", network=network, batch_size=8)
        net = text_format.Parse(make_nets_and_solver(experiment, "", str, "")[0]["train"], caffe_pb2.NetParameter())
        image = (3, 32, 32) if NETS[name].any_size else image
    return with_data_in_memory(net, image)


def with_batch_norm(net: caffe_pb2.NetParameter) -> caffe_pb2.NetParameter:
    """A copy with Caffe's BatchNorm in place of every mDA layer; all else, the branch included, stays."""
    copy = caffe_pb2.NetParameter()
    copy.CopyFrom(net)
    for layer in copy.layer:
        if kind(layer) == "MDALayer":
            layer.type = "BatchNorm"
            layer.ClearField("python_param")
            del layer.bottom[1:]
    return copy


def make_solver(net: caffe_pb2.NetParameter, base_lr: float) -> caffe.SGDSolver:
    """A solver of ``net``, whose inputs hold fixed random images and labels."""
    with tempfile.TemporaryDirectory() as folder:
        train = Path(folder) / "train.prototxt"
        train.write_text(text_format.MessageToString(net))
        solver_file = Path(folder) / "solver.prototxt"
        solver_file.write_text(
            f'train_net: "{train}" base_lr: {base_lr} lr_policy: "fixed" momentum: 0.9 max_iter: 100000 '
            f"display: 0 random_seed: 1 snapshot_after_train: false"
        )
        solver = caffe.SGDSolver(str(solver_file))
    classes = solver.net.blobs[SCORES].shape[1]
    rng = np.random.default_rng(0)
    for layer in net.layer:
        if layer.type == "Input":
            for top in layer.top:
                data = solver.net.blobs[top].data
                data[...] = rng.integers(0, classes, data.shape) if data.ndim == 1 else rng.normal(size=data.shape)
    return solver


def iteration(net: caffe_pb2.NetParameter) -> Callable[[], None]:
    """A function that does one solver iteration (forward, backward, update) of ``net`` on fixed random images."""
    solver = make_solver(net, RATE)
    return lambda: solver.step(1)
