"""The process that goes on with a run from a snapshot. ``caffe train`` would read the first records again.

``python -m tools.train --resume`` starts it; nobody else should. It is started in the repository's root: the solver
names its nets, and they their LMDBs, relative to it.

When it gets SIGINT, SIGTERM or SIGHUP, it stops after the iteration, with a snapshot.
"""

import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

import caffe
from caffe.proto import caffe_pb2

from latent_domains.common.arguments import program_parser
from latent_domains.models import prototxt

STATEFUL = frozenset({"Data", "Dropout"})
"""Types of layers whose forward pass depends on the passes before it: on records read or random numbers drawn."""


class _Stopped(Exception):
    """The process was told to stop."""


class StopSignals:
    """Remembers whether the process was told to stop."""

    def __init__(self) -> None:
        self.came = False
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._note)

    def _note(self, *_: Any) -> None:
        self.came = True

    def check(self) -> None:
        """Raise _Stopped if the process was told to stop."""
        if self.came:
            raise _Stopped


def _replay(net: caffe.Net, passes: int, signals: StopSignals) -> None:
    """Run the stateful layers alone, so many times: a snapshot does not hold their state.

    They run in the net's order, so that records, crops, mirroring and dropout continue exactly. Raises _Stopped once
    a signal comes.
    """
    layers = [name for name, layer in net.layer_dict.items() if layer.type in STATEFUL]
    for _ in range(passes):
        signals.check()
        for name in layers:
            net.forward(start=name, end=name)


def train(solver_file: Path, snapshot: Path, signals: StopSignals) -> None:
    """Train from ``snapshot`` to the solver's last iteration, or until a signal comes."""
    param = prototxt.read(solver_file, caffe_pb2.SolverParameter())
    if param.solver_mode == caffe_pb2.SolverParameter.GPU:
        caffe.set_device(param.device_id)  # first: whatever comes before would take memory of GPU 0
        caffe.set_mode_gpu()
    solver = caffe.get_solver(str(solver_file))
    caffe.log(f"Resuming from {snapshot}")
    solver.restore(str(snapshot))
    first = solver.iter
    caffe.log(f"Going on with the records and random numbers after iteration {first}")
    # Caffe calls the first function before an iteration and the second one before its update. A handler of signals
    # must not raise: it may run within an iteration, which a snapshot cannot hold.
    solver.add_callback(signals.check, lambda: None)
    try:
        _replay(solver.net, first * param.iter_size, signals)
        solver.solve()  # it writes the last snapshot, tests and logs as caffe train does
    except _Stopped:
        if solver.iter > first:
            solver.snapshot()
        caffe.log("Optimization stopped early.")


def main() -> None:
    parser = program_parser("latent_domains.training.worker", __doc__)
    parser.add_argument("--solver", type=Path, required=True, metavar="FILE", help="the run's solver")
    parser.add_argument("--snapshot", type=Path, required=True, metavar="FILE", help="solverstate to go on from")
    options = parser.parse_args()
    code = 1
    try:
        caffe.init_log()  # before our handlers of signals: it sets some of its own
        train(options.solver, options.snapshot, StopSignals())
        code = 0
    except BaseException:
        traceback.print_exc()
    # At once: Caffe's prefetching threads still run.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
