"""How the processes of one run come to the same gradients, and begin with the same parameters.

Both ways take the mean over the processes after every backward pass, before the solver's update.
"""

from typing import Protocol

import caffe
import numpy as np

from latent_domains.training.peers import Peers

_UID_BYTES = 128  # NCCL_UNIQUE_ID_BYTES


class Reduction(Protocol):
    """A way to share gradients."""

    def attach(self, solver: caffe.SGDSolver) -> None:
        """Give all processes the first one's parameters, and from now on the mean of their gradients.

        Called by all of them, with solvers of the same net, before the first iteration. Raises PeerLost.
        """


class NcclReduction:
    """Between GPUs, by NCCL, as pycaffe offers it: ``Caffe::solver_rank`` and ``solver_count`` must be set."""

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
    """Between processes on the CPU, over the peers' sockets."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers

    def attach(self, solver: caffe.SGDSolver) -> None:
        blobs = [blob for layer in solver.net.layers for blob in layer.blobs]
        self._peers.broadcast([blob.data for blob in blobs])
        if self._peers.size > 1:
            solver.add_callback(lambda: None, lambda: self._peers.average([blob.diff for blob in blobs]))
