"""The worker's training in processes of a test's own, which keep what each of them came to."""

import multiprocessing
import os
import socket
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tools.parallel.share import Share
from tools.program import ROOT

Kept = dict[str, NDArray[np.float32]]


def train_shares(share: Share, size: int, folder: Path) -> list[Kept]:
    """Train ``share`` in ``size`` real processes on the CPU; what each kept (see :func:`_train`)."""
    context = multiprocessing.get_context("spawn")
    pairs = [socket.socketpair() for _ in range(size - 1)]
    children = []
    for rank in range(size):
        ends = [pair[0] for pair in pairs] if rank == 0 else [pairs[rank - 1][1]]
        file = share.first if rank == 0 else share.other
        arguments = (file, rank, size, ends, folder / f"{rank}.npz")
        children.append(context.Process(target=_train, args=arguments))
        children[-1].start()
    for pair in pairs:
        for end in pair:
            end.close()
    for child in children:
        child.join(60)
    assert [child.exitcode for child in children] == [0] * size
    return [dict(np.load(folder / f"{rank}.npz")) for rank in range(size)]


def _train(solver: Path, rank: int, size: int, ends: list[socket.socket], kept: Path) -> None:
    """Train one share. Kept are ``LAYER.INDEX``, the blobs in the end; ``own.I``, what the process had on its own of
    the Ith blob of statistics when they were averaged for the last time; and ``data``, the last batch."""
    import caffe

    from tools.parallel.peers import Peers
    from tools.parallel.reduction import HostReduction
    from tools.parallel.worker import StopSignals, train

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
    peers = Peeking(rank, size, ends)
    reduction = Keeping(peers)
    train(solver, peers, reduction, StopSignals())
    net = reduction.solver.net
    blobs = {f"{name}.{i}": blob.data for name, blobs in net.params.items() for i, blob in enumerate(blobs)}
    own = {f"own.{i}": array for i, array in enumerate(peers.own)}
    np.savez(kept, data=net.blobs["data"].data, **blobs, **own)
    os._exit(0)
