"""One of the processes that train a run together, or the only one that goes on with a run from a snapshot.

``python -m tools.train --gpus …`` and ``--resume`` start them; nobody else should.

It is started in the repository's root: the solver names its nets, and they their LMDBs, relative to it.

The first process logs, tests and writes snapshots. Before each of these the running statistics of mDA and BN are
averaged over the processes, which gather them from their own shares of the batch. When any process gets
SIGINT, SIGTERM or SIGHUP, all stop after the same iteration, with a snapshot.
"""

import argparse
import os
import signal
import sys
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import caffe
import numpy as np
from caffe.proto import caffe_pb2
from numpy.typing import NDArray

from latent_domains.common.arguments import natural, positive, program_parser
from latent_domains.models import prototxt
from latent_domains.models.allowed import read_net
from latent_domains.training.peers import HostReduction, NcclReduction, Peers

LOST = 3
"""Exit code of a process that ends because another one did."""

STATEFUL = frozenset({"Data", "Dropout"})
"""Types of layers whose forward pass depends on the passes before it: on records read or random numbers drawn."""


class _Stopped(Exception):
    """All processes agreed to stop."""


class StopSignals:
    """Remembers whether the process was told to stop."""

    def __init__(self) -> None:
        self.came = False
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._note)

    def _note(self, *_: Any) -> None:
        self.came = True


def statistics(net: caffe.Net, definition: caffe_pb2.NetParameter) -> list[caffe._caffe.Blob]:
    """Blobs of running statistics: all of a BatchNorm, and those of Python layers that the solver leaves alone.

    Caffe sees to it that BatchNorm's are not learned; a net must say so for those of Python layers (lr_mult 0).
    """
    found = []
    for layer in definition.layer:
        if layer.type == "BatchNorm":
            found += list(net.params[layer.name])
        elif layer.type == "Python" and layer.name in net.params:
            found += [
                blob
                for blob, param in zip(net.params[layer.name], layer.param, strict=False)
                if param.HasField("lr_mult") and param.lr_mult == 0
            ]
    return found


def _replay(net: caffe.Net, passes: int, stop: Callable[[], bool]) -> None:
    """Run the stateful layers alone, so many times: a snapshot does not hold their state.

    They run in the net's order, so that records, crops, mirroring and dropout continue exactly. Raises _Stopped once
    ``stop`` says so.
    """
    layers = [name for name, layer in net.layer_dict.items() if layer.type in STATEFUL]
    for _ in range(passes):
        if stop():
            raise _Stopped
        for name in layers:
            net.forward(start=name, end=name)


def train(
    solver_file: Path,
    peers: Peers,
    reduction: HostReduction | NcclReduction,
    stop: StopSignals,
    *,
    snapshot: Path | None = None,
    weights: Path | None = None,
) -> None:
    """Train to the solver's last iteration, or until a process is told to stop.

    Caffe's mode, device, solver count and solver rank must be set. Raises EOFError or ConnectionError if another
    process ends.
    """
    solver = caffe.get_solver(str(solver_file))  # its seed, for dropout and crops, is random_seed + rank
    param = prototxt.read(solver_file, caffe_pb2.SolverParameter())
    if snapshot:
        caffe.log(f"Resuming from {snapshot}")
        solver.restore(str(snapshot))
        caffe.log(f"Going on with the records and random numbers after iteration {solver.iter}")
        try:
            _replay(solver.net, solver.iter * param.iter_size, lambda: peers.any(stop.came))
        except _Stopped:
            caffe.log("Optimization stopped early.")
            return
    elif weights:
        caffe.log(f"Finetuning from {weights}")
        solver.net.copy_from(str(weights))
    reduction.attach(solver)
    definition = read_net(Path(param.train_net), ["Data"])
    running = statistics(solver.net, definition)
    first = solver.iter
    intervals = [every for every in (param.snapshot, param.test_interval) if every]

    def average_statistics() -> None:
        arrays: list[NDArray[np.float32]] = [blob.data for blob in running]
        peers.average(arrays)

    def before_iteration() -> None:
        # Here, and not in a handler of signals: one process must not wait for gradients of one that has stopped.
        if solver.iter > first and peers.any(stop.came):
            raise _Stopped

    def before_update() -> None:
        # Forward has updated the statistics and the update leaves them alone. After it Caffe may write a snapshot,
        # and test, at once.
        done = solver.iter + 1
        if done == param.max_iter or any(done % every == 0 for every in intervals):
            average_statistics()

    solver.add_callback(before_iteration, before_update)
    try:
        solver.step(param.max_iter - solver.iter)
    except _Stopped:
        average_statistics()
        if peers.first:
            solver.snapshot()
            caffe.log("Optimization stopped early.")
        return
    if peers.first:
        solver.solve()  # no iteration is left: it writes the last snapshot, tests and logs as caffe train does


def _work(options: argparse.Namespace) -> None:
    caffe.init_log()  # before our handlers of signals: it sets some of its own
    stop = StopSignals()
    if options.gpu is not None:
        caffe.set_device(options.gpu)  # first: whatever comes before would take memory of GPU 0
        caffe.set_mode_gpu()
    caffe.set_solver_count(options.size)
    caffe.set_solver_rank(options.rank)
    caffe.set_multiprocess(True)  # without it Python layers are refused
    peers = Peers(options.rank, [Connection(number) for number in options.pipes])
    reduction = NcclReduction(peers) if options.nccl else HostReduction(peers)
    train(options.solver, peers, reduction, stop, snapshot=options.snapshot, weights=options.weights)


def main() -> None:
    parser = program_parser("latent_domains.training.worker", __doc__)
    parser.add_argument("--solver", type=Path, required=True, metavar="FILE", help="solver of the share")
    parser.add_argument("--rank", type=natural, required=True, help="number of this process, from 0")
    parser.add_argument("--size", type=positive, required=True, help="number of processes")
    parser.add_argument("--gpu", type=natural, help="GPU of this process (default: the CPU)")
    parser.add_argument("--nccl", action="store_true", help="share gradients by NCCL (default: over the pipes)")
    parser.add_argument("--pipes", type=natural, nargs="*", default=[], help="descriptors of pipes to the others")
    parser.add_argument("--snapshot", type=Path, metavar="FILE", help="solverstate to go on from")
    parser.add_argument("--weights", type=Path, metavar="FILE", help="caffemodel to begin from")
    options = parser.parse_args()
    code = 1
    try:
        _work(options)
        code = 0
    except (EOFError, ConnectionError):
        print("another process of the run ended", file=sys.stderr)
        code = LOST
    except BaseException:
        traceback.print_exc()
    # At once: Caffe's prefetching threads still run, and NCCL would wait for processes that are gone.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
