"""Small experiments, and run folders that tests change."""

import re
from pathlib import Path
from typing import Any

import caffe
import numpy as np
from caffe.proto import caffe_pb2
from numpy.typing import NDArray

from latent_domains.experiment.experiment import Experiment, make_experiment
from latent_domains.runs.run_folder import RunFolder


def small(method: str = "mda", **options: Any) -> Experiment:
    """Six iterations on the digits."""
    return make_experiment("digits", method, **{"batch_size": 8, "iterations": 6, **options})


def edit(file: Path, old: str, new: str) -> None:
    """Replace text that is in a file."""
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def initial_weights(run: RunFolder) -> Path:
    """Weights as the training net of a run has them before its first iteration."""
    file = run.path.with_suffix(".caffemodel")
    caffe.Net(str(run.net("train")), caffe.TRAIN).save(str(file))
    return file


def blobs(model: Path) -> dict[str, NDArray[np.float32]]:
    """The blobs of a caffemodel, flat, by ``LAYER.INDEX``."""
    net = caffe_pb2.NetParameter.FromString(model.read_bytes())
    return {
        f"{layer.name}.{i}": np.array(blob.data, np.float32)
        for layer in net.layer
        for i, blob in enumerate(layer.blobs)
    }


def lasting(folder: RunFolder, iterations: int) -> RunFolder:
    """Change how many iterations the training of a run folder has, whatever it has done so far."""
    description = folder.path / "experiment.json"
    for file, pattern in ((folder.solver, r"(max_iter: )\d+"), (description, r'("iterations": )\d+')):
        text, count = re.subn(pattern, rf"\g<1>{iterations}", file.read_text())
        assert count == 1
        file.write_text(text)
    return RunFolder.load(folder.path)


def spoil(weights: Path, name: str) -> None:
    """Make a parameter of layer ``name`` NaN, as in a training that diverged."""
    model = caffe_pb2.NetParameter.FromString(weights.read_bytes())
    next(layer for layer in model.layer if layer.name == name).blobs[0].data[0] = float("nan")
    weights.write_bytes(model.SerializeToString())
