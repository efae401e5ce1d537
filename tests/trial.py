"""A net tried in a process of its own, as ``check_loads`` does, but a forked one: Caffe is imported once for all.

What ``try_net`` needs is imported where it is called, or by the server that forks (``PRELOADED``).
"""

import ctypes
import multiprocessing
import os
import tempfile
from pathlib import Path

PRELOADED = ["caffe", "caffe_layers", "numba", "tests.trial"]


def try_net(net: str, phase: int, errors: str) -> None:
    """Load a net, its messages in the file ``errors``; run it if it is for tests."""
    os.dup2(os.open(errors, os.O_WRONLY), 2)
    ctypes.CDLL("libgomp.so.1").omp_set_num_threads(1)
    from caffe import TEST, Net

    loaded = Net(net, phase)
    if phase == TEST:
        loaded.forward()


def check_loads(net: Path, phase: int = 1) -> None:
    """Raise ProgramError if Caffe refuses a net, as the library's function of this name."""
    from latent_domains.common.caffe_log import ending
    from latent_domains.common.program import ProgramError

    forking = multiprocessing.get_context("forkserver")
    forking.set_forkserver_preload(PRELOADED)
    with tempfile.NamedTemporaryFile("r", errors="replace") as errors:
        child = forking.Process(target=try_net, args=(str(net.resolve()), phase, errors.name), daemon=True)
        child.start()
        child.join()
        if child.exitcode:
            raise ProgramError(f"{net}: Caffe refuses this net: {ending(child.exitcode, errors.read())}")
