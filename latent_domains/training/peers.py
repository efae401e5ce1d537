"""Small host arrays between the processes of one run: a star of sockets with the first process in its middle.

How they come to the same gradients and begin with the same parameters: both ways take the mean over the processes
after every backward pass, before the solver's update. Every method is called by all the processes, in the same order,
with arrays of the same shapes.
"""

import socket
from collections.abc import Sequence

import caffe
import numpy as np
from numpy.typing import NDArray


class PeerLost(Exception):
    """Another process of the run ended: there is nothing left to do here."""


class Peers:
    """The other processes, as seen by number ``rank`` of ``size``.

    ``sockets`` are those to processes 1, 2, … in the first process (rank 0), and the one to the first in any other.
    """

    def __init__(self, rank: int, size: int, sockets: Sequence[socket.socket]) -> None:
        expected = size - 1 if rank == 0 else 1
        if len(sockets) != expected:
            raise ValueError(f"sockets: got {len(sockets)}, expected {expected} for rank {rank} of {size}")
        self.rank = rank
        self.size = size
        self._sockets = tuple(sockets)

    @property
    def first(self) -> bool:
        """Whether this is the first process: the one that logs, tests and writes snapshots."""
        return self.rank == 0

    def any(self, flag: bool) -> bool:
        """Whether ``flag`` is true in any process. Raises PeerLost, as the other methods do."""
        flags = np.array([flag], np.uint8)
        self._gather(flags, np.maximum)
        return bool(flags[0])

    def average(self, arrays: Sequence[NDArray[np.float32]]) -> None:
        """Replace ``arrays`` by their means over the processes, which are the same to the bit in all of them."""
        if not arrays or self.size == 1:
            return
        flat = np.concatenate([array.ravel() for array in arrays])
        self._gather(flat, np.add)
        flat /= self.size
        _spread(flat, arrays)

    def broadcast(self, arrays: Sequence[NDArray[np.generic]]) -> None:
        """Replace ``arrays`` by those of the first process."""
        if not arrays or self.size == 1:
            return
        flat = np.concatenate([array.ravel() for array in arrays])
        if self.first:
            for other in self._sockets:
                _send(other, flat)
        else:
            _receive(self._sockets[0], flat)
            _spread(flat, arrays)

    def _gather(self, values: NDArray[np.generic], combine: np.ufunc) -> None:
        """Replace ``values`` by what ``combine`` makes of those of all processes."""
        if self.first:
            received = np.empty_like(values)
            for other in self._sockets:
                _receive(other, received)
                combine(values, received, out=values)
            for other in self._sockets:
                _send(other, values)
        else:
            _send(self._sockets[0], values)
            _receive(self._sockets[0], values)


def _spread(flat: NDArray[np.generic], arrays: Sequence[NDArray[np.generic]]) -> None:
    start = 0
    for array in arrays:
        array[...] = flat[start : start + array.size].reshape(array.shape)
        start += array.size


def _send(other: socket.socket, values: NDArray[np.generic]) -> None:
    try:
        other.sendall(memoryview(values).cast("B"))
    except OSError as error:
        raise PeerLost from error


def _receive(other: socket.socket, values: NDArray[np.generic]) -> None:
    view = memoryview(values).cast("B")
    while view:
        try:
            received = other.recv_into(view)
        except OSError as error:
            raise PeerLost from error
        if received == 0:
            raise PeerLost
        view = view[received:]


_UID_BYTES = 128  # NCCL_UNIQUE_ID_BYTES


class NcclReduction:
    """Gradients between GPUs, by NCCL: ``Caffe::solver_rank`` and ``solver_count`` must be set."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers

    def attach(self, solver: caffe.SGDSolver) -> None:
        uid = np.zeros(_UID_BYTES, np.uint8)
        if self._peers.first:
            made = caffe.NCCL.new_uid()
            if len(made) != _UID_BYTES:
                raise RuntimeError(
                    f"caffe.NCCL.new_uid() gave {len(made)} bytes, expected {_UID_BYTES}: pycaffe cuts them at a zero "
                    "byte; rebuild Caffe with docker/patches"
                )
            uid[:] = np.frombuffer(made, np.uint8)
        self._peers.broadcast([uid])
        self._nccl = caffe.NCCL(solver, uid.tobytes())  # kept: Caffe has only its address
        self._nccl.bcast()
        solver.add_callback(self._nccl)
        if solver.param.layer_wise_reduce:
            solver.net.after_backward(self._nccl)


class HostReduction:
    """Gradients between processes on the CPU, over the peers' sockets."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers

    def attach(self, solver: caffe.SGDSolver) -> None:
        blobs = [blob for layer in solver.net.layers for blob in layer.blobs]
        self._peers.broadcast([blob.data for blob in blobs])
        if self._peers.size > 1:
            solver.add_callback(lambda: None, lambda: self._peers.average([blob.diff for blob in blobs]))
