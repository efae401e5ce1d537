"""Training iterations of nets with mDA, and with BatchNorm instead."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import caffe
import numpy as np
from caffe.proto.caffe_pb2 import NetParameter
from google.protobuf import text_format

from latent_domains.experiment.experiment import make_experiment
from latent_domains.models.graph import kind
from latent_domains.nets.training_files import make_nets_and_solver

NETS: dict[str, dict[str, Any]] = {
    "digits": {"dataset": "digits"},
    "resnet18": {"dataset": "pacs", "network": "resnet18"},
    "alexnet": {"dataset": "office31"},
    "lite0": {"dataset": "pacs", "network": "lite0"},
    "lite0-128": {"dataset": "pacs", "network": "lite0", "image_size": 128},
}
"""Settings of the experiments whose nets are timed."""

SMALLEST_IMAGES = 64
"""For a test of one step: the side of the images, if a net takes any size."""

RATE = 1e-8
"""The learning rate. It is so small that the numbers, and so the work, are the same in every iteration."""


def settings(name: str, *, smallest: bool = False) -> dict[str, Any]:
    """Return the settings in NETS, or those of a ``smallest`` net like it."""
    if not smallest:
        return NETS[name]
    return {**NETS[name], "batch_size": 8, "image_size": SMALLEST_IMAGES if "network" in NETS[name] else None}


def net_in_memory(*, with_mda: bool = True, **settings: Any) -> NetParameter:
    """Return the training net of an experiment with these settings, with Input layers instead of Data layers.

    Without mDA, Caffe's BatchNorm replaces every mDA layer. All else is kept, also the branch.
    """
    experiment = make_experiment(method="mda", **settings)
    net = text_format.Parse(make_nets_and_solver(experiment, "", str, "")[0]["train"], NetParameter())
    for layer in net.layer:
        if layer.type == "Data":
            rows = layer.data_param.batch_size
            layer.type = "Input"
            layer.ClearField("data_param")
            layer.ClearField("transform_param")
            for shape in [(rows, *experiment.data.shape), (rows,)][: len(layer.top)]:
                layer.input_param.shape.add().dim.extend(shape)
        elif kind(layer) == "MDALayer" and not with_mda:
            layer.type = "BatchNorm"
            layer.ClearField("python_param")
            del layer.bottom[1:]
    return net


def make_solver(net: NetParameter, base_lr: float = RATE) -> caffe.SGDSolver:
    """Return a solver of ``net``, whose inputs are fixed random images and labels."""
    with tempfile.TemporaryDirectory() as folder:
        train, solver_file = Path(folder, "train.prototxt"), Path(folder, "solver.prototxt")
        train.write_text(text_format.MessageToString(net))
        solver_file.write_text(
            f'train_net: "{train}" base_lr: {base_lr} lr_policy: "fixed" momentum: 0.9 max_iter: 100000 '
            f"display: 0 random_seed: 1 snapshot_after_train: false"
        )
        solver = caffe.SGDSolver(str(solver_file))
    classes = solver.net.blobs["scores_source"].shape[1]
    rng = np.random.default_rng(0)
    for layer in net.layer:
        if layer.type == "Input":
            for top in layer.top:
                data = solver.net.blobs[top].data
                data[...] = rng.integers(0, classes, data.shape) if data.ndim == 1 else rng.normal(size=data.shape)
    return solver


def iteration(net: NetParameter) -> Callable[[], None]:
    """Return a function that does one solver iteration (forward, backward, update) on fixed random images."""
    solver = make_solver(net)
    return lambda: solver.step(1)
