"""Small runs, and their training by the program's own processes."""

from pathlib import Path
from typing import Any

import numpy as np
from caffe.proto import caffe_pb2
from numpy.typing import NDArray

from latent_domains.experiment.experiment import make_experiment
from latent_domains.runs.devices import Devices
from latent_domains.runs.run_folder import RunFolder
from latent_domains.runs.write import write_run
from latent_domains.training.group import start_workers
from latent_domains.training.share import write_share


def written(path: Path, data: Path, method: str = "mda", *, display: int = 1, **options: Any) -> RunFolder:
    """A small run of digits for the CPU, that logs every ``display`` iterations."""
    experiment = make_experiment("digits", method, **{"batch_size": 8, "iterations": 6, **options})
    run = write_run(experiment, path, data=data, solver_mode="CPU")
    run.solver.write_text(run.solver.read_text().replace("display: 10", f"display: {display}"))
    return run


def blobs(model: Path) -> dict[str, NDArray[np.float32]]:
    """The blobs of a caffemodel, flat, by ``LAYER.INDEX``."""
    net = caffe_pb2.NetParameter.FromString(model.read_bytes())
    return {
        f"{layer.name}.{i}": np.array(blob.data, np.float32)
        for layer in net.layer
        for i, blob in enumerate(layer.blobs)
    }


def train(run: RunFolder, devices: Devices) -> dict[str, NDArray[np.float32]]:
    """Train with a process on each device, log to the run's log; the blobs of the last snapshot."""
    with start_workers(write_share(run, devices.size), devices, 1) as group:
        run.log.write_text("".join(group.lines()))
    assert group.failure is None
    return blobs(run.latest_snapshot().model)
