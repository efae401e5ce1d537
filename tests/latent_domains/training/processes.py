"""Small runs, and their training by the program's own processes, or by a test's, which keep what they came to."""

import multiprocessing
import os
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from caffe.proto import caffe_pb2
from numpy.typing import NDArray

from latent_domains.common.program import ROOT
from latent_domains.experiment.experiment import make_experiment
from latent_domains.runs.devices import Devices
from latent_domains.runs.run_folder import RunFolder
from latent_domains.runs.write import write_run
from latent_domains.training.group import start_workers
from latent_domains.training.share import write_share

Kept = dict[str, NDArray[np.float32]]


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


def train_shares(solvers: list[Path], folder: Path) -> list[Kept]:
    """Train the shares of ``solvers`` in real processes on the CPU; what each kept (see :func:`_train`)."""
    size = len(solvers)
    context = multiprocessing.get_context("spawn")
    pairs = [Pipe() for _ in range(size - 1)]
    children = []
    for rank in range(size):
        ends = [pair[0] for pair in pairs] if rank == 0 else [pairs[rank - 1][1]]
        arguments = (solvers[rank], rank, size, ends, folder / f"{rank}.npz")
        children.append(context.Process(target=_train, args=arguments))
        children[-1].start()
    for pair in pairs:
        for end in pair:
            end.close()
    for child in children:
        child.join(60)
    assert [child.exitcode for child in children] == [0] * size
    return [dict(np.load(folder / f"{rank}.npz")) for rank in range(size)]


def _train(solver: Path, rank: int, size: int, ends: list[Connection], kept: Path) -> None:
    """Train one share. Kept are ``LAYER.INDEX``, the blobs in the end; ``own.I``, what the process had on its own of
    the Ith blob of statistics when they were averaged for the last time; and ``data``, the last batch."""
    import caffe

    from latent_domains.training.peers import HostReduction, Peers
    from latent_domains.training.worker import StopSignals, train

    class Peeking(Peers):
        def average(self, arrays):
            self.own = [array.copy() for array in arrays]
            super().average(arrays)

    class Keeping(HostReduction):
        def attach(self, solver):
            super().attach(solver)
            self.solver = solver

    os.chdir(ROOT)
    caffe.set_solver_count(size)
    caffe.set_solver_rank(rank)
    caffe.set_multiprocess(True)
    peers = Peeking(rank, ends)
    reduction = Keeping(peers)
    train(solver, peers, reduction, StopSignals())
    net = reduction.solver.net
    blobs = {f"{name}.{i}": blob.data for name, blobs in net.params.items() for i, blob in enumerate(blobs)}
    own = {f"own.{i}": array for i, array in enumerate(peers.own)}
    np.savez(kept, data=net.blobs["data"].data, **blobs, **own)
    os._exit(0)
