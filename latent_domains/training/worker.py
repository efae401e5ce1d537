"""The process that continues a run from a snapshot. (``caffe train`` would read the first records again.)

Only ``python -m tools.train --resume`` should start it, in the repository's root: the paths in the solver and its nets
are relative to it.

On SIGINT, SIGTERM or SIGHUP it stops after the iteration, with a snapshot.
"""

import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import caffe
from caffe.proto import caffe_pb2

from latent_domains.common.arguments import program_parser
from latent_domains.models import prototxt

STATEFUL = frozenset({"Data", "Dropout"})
"""Types of layers whose forward pass depends on earlier passes, through the records read or random numbers drawn."""


class _Stopped(Exception):
    """A signal asked the process to stop."""


def hear_signals() -> Callable[[], None]:
    """Catch the signals that stop the process. Return a check that raises _Stopped after one has come."""
    came: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: came.append(number))

    def check() -> None:
        if came:
            raise _Stopped

    return check


def _replay(net: caffe.Net, passes: int, check: Callable[[], None]) -> None:
    """Run only the stateful layers for ``passes`` passes, since a snapshot does not contain their state.

    They run in the net's order, so that records, crops, mirroring and dropout continue exactly. Raises what ``check``
    raises.
    """
    layers = [name for name, layer in net.layer_dict.items() if layer.type in STATEFUL]
    for _ in range(passes):
        check()
        for name in layers:
            net.forward(start=name, end=name)


def train(solver_file: Path, snapshot: Path, check: Callable[[], None]) -> None:
    """Train from ``snapshot`` to the solver's last iteration, or until ``check`` raises _Stopped."""
    param = prototxt.read(solver_file, caffe_pb2.SolverParameter())
    if param.solver_mode == caffe_pb2.SolverParameter.GPU:
        caffe.set_device(param.device_id)  # first: anything before it would take memory on GPU 0
        caffe.set_mode_gpu()
    solver = caffe.get_solver(str(solver_file))
    caffe.log(f"Resuming from {snapshot}")
    solver.restore(str(snapshot))
    first = solver.iter
    caffe.log(f"Going on with the records and random numbers after iteration {first}")
    # Caffe calls the first function before an iteration, the second one before its update. A signal's handler must not
    # raise: it may run in the middle of an iteration, where no snapshot is possible.
    solver.add_callback(check, lambda: None)
    try:
        _replay(solver.net, first * param.iter_size, check)
        solver.solve()  # it writes the last snapshot, tests and logs as caffe train does
    except _Stopped:
        if solver.iter > first:
            solver.snapshot()
        caffe.log("Optimization stopped early.")


def main() -> None:
    parser = program_parser("latent_domains.training.worker", __doc__)
    parser.add_argument("--solver", type=Path, required=True, metavar="FILE", help="the run's solver")
    parser.add_argument("--snapshot", type=Path, required=True, metavar="FILE", help="solverstate to continue from")
    options = parser.parse_args()
    code = 1
    try:
        caffe.init_log()  # before our signal handlers, since it sets some too
        train(options.solver, options.snapshot, hear_signals())
        code = 0
    except BaseException:
        traceback.print_exc()
    # At once, since Caffe's prefetching threads still run.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
