"""Arrays shared between the processes of one run: over pipes from the first process to each other one, or by NCCL.

Both ways give all processes the same parameters at the beginning and the mean of their gradients before every update.
All processes call every method, in the same order, with arrays of the same shapes.
"""

from collections.abc import Sequence
from multiprocessing.connection import Connection

import caffe
import numpy as np
from numpy.typing import NDArray


class Peers:
    """The other processes, as seen by number ``rank``. EOFError or ConnectionError says that one of them has ended.

    ``pipes`` are those to processes 1, 2, … in the first process (rank 0), and the one to the first in any other.
    """

    def __init__(self, rank: int, pipes: Sequence[Connection]) -> None:
        self.rank = rank
        self._pipes = tuple(pipes)

    @property
    def first(self) -> bool:
        """Whether this is the first process: the one that logs, tests and writes snapshots."""
        return self.rank == 0

    def any(self, flag: bool) -> bool:
        """Whether ``flag`` is true in any process."""
        flags = np.array([flag], np.uint8)
        self._combine(flags, np.maximum)
        return bool(flags[0])

    def average(self, arrays: Sequence[NDArray[np.float32]]) -> None:
        """Replace ``arrays`` by their means over the processes, which are the same to the bit in all of them."""
        if arrays and self._pipes:
            count = np.ones(1, np.float32)
            flat = np.concatenate([count, *(array.ravel() for array in arrays)])
            self._combine(flat, np.add)
            _spread(flat[1:] / flat[0], arrays)

    def broadcast(self, arrays: Sequence[NDArray[np.generic]]) -> None:
        """Replace ``arrays`` by those of the first process."""
        if arrays and self._pipes:
            flat = np.concatenate([array.ravel() for array in arrays])
            self._send_or_receive(flat)
            _spread(flat, arrays)

    def _combine(self, values: NDArray[np.generic], combine: np.ufunc) -> None:
        """Replace ``values`` by what ``combine`` makes of those of all processes."""
        if self.first:
            received = np.empty_like(values)
            for pipe in self._pipes:
                pipe.recv_bytes_into(received.data.cast("B"))
                combine(values, received, out=values)
        else:
            self._pipes[0].send_bytes(values.data.cast("B"))
        self._send_or_receive(values)

    def _send_or_receive(self, values: NDArray[np.generic]) -> None:
        """Send the first process's values to the others."""
        for pipe in self._pipes:
            if self.first:
                pipe.send_bytes(values.data.cast("B"))
            else:
                pipe.recv_bytes_into(values.data.cast("B"))


def _spread(flat: NDArray[np.generic], arrays: Sequence[NDArray[np.generic]]) -> None:
    start = 0
    for array in arrays:
        array[...] = flat[start : start + array.size].reshape(array.shape)
        start += array.size


_UID_BYTES = 128  # NCCL_UNIQUE_ID_BYTES


class NcclReduction:
    """Gradients between GPUs, by NCCL: ``Caffe::solver_rank`` and ``solver_count`` must be set."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers

    def attach(self, solver: caffe.SGDSolver) -> None:
        uid = np.zeros(_UID_BYTES, np.uint8)
        if self._peers.first:
            uid[:] = np.frombuffer(caffe.NCCL.new_uid(), np.uint8)  # all of them: docker/patches
        self._peers.broadcast([uid])
        self._nccl = caffe.NCCL(solver, uid.tobytes())  # kept: Caffe has only its address
        self._nccl.bcast()
        solver.add_callback(self._nccl)
        if solver.param.layer_wise_reduce:
            solver.net.after_backward(self._nccl)


class HostReduction:
    """Gradients between processes on the CPU, over the peers' pipes. Only tests have more than one process here."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers

    def attach(self, solver: caffe.SGDSolver) -> None:
        blobs = [blob for layer in solver.net.layers for blob in layer.blobs]
        self._peers.broadcast([blob.data for blob in blobs])
        solver.add_callback(lambda: None, lambda: self._peers.average([blob.diff for blob in blobs]))
