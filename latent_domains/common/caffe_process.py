"""Running the ``caffe`` binary as a child process."""

import os
import shutil
import site
import subprocess
from collections.abc import Sequence
from pathlib import Path

from latent_domains.common.program import ROOT, ProgramError

UNMOVED_BY_SIGTERM = ("env", "--block-signal=TERM")
"""Command prefix of a child that SIGTERM does not end. SLURM sends SIGTERM to every process of a job, and caffe would
end before it has written a snapshot. The signal is blocked, not ignored: glog in caffe sets its own handler."""

_ENDING_WITH_PARENT = ("setpriv", "--pdeathsig", "KILL", "sh", "-c", '[ $PPID = $0 ] || kill -KILL $$; exec "$@"')
"""Command prefix, before the parent's id, of a child that the kernel kills with its parent. The shell looks whether
the parent has already ended."""


def ending_with_parent(command: Sequence[str]) -> list[str]:
    """The command of a child that the kernel kills as soon as the thread that starts it ends.

    Without this, a child would go on unnoticed if its parent is killed, perhaps for using too much memory.
    """
    return [*_ENDING_WITH_PARENT, str(os.getpid()), *command]


def caffe_binary() -> str:
    """Path of the ``caffe`` on PATH. Raises ProgramError if there is none."""
    found = shutil.which("caffe")
    if found is None:
        raise ProgramError("no caffe on PATH: run '. ./env.sh' in the repository root (after 'make setup')")
    return found


def environment(threads: int) -> dict[str, str]:
    """A child's environment: so many threads in all layers, no progress bars. A BLAS has one: layers divide the work.

    ``caffe`` embeds the interpreter and knows no virtual environment, so PYTHONPATH names this one's packages, the
    folder pycaffe lies in, and the repository.
    """
    import caffe

    paths = [str(ROOT), str(Path(caffe.__file__).parent.parent), *site.getsitepackages()]
    paths += [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path and path not in paths]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "OPENBLAS_NUM_THREADS": "1",
        "NUMBA_NUM_THREADS": str(threads),
        "OMP_NUM_THREADS": str(threads),
        "TQDM_DISABLE": "1",
        "GLOG_logtostderr": "1",
        "GLOG_minloglevel": "0",
    }


def start(arguments: list[str], threads: int) -> subprocess.Popen[str]:
    """Start ``caffe ARGUMENTS``: see :func:`start_logged`."""
    return start_logged([*UNMOVED_BY_SIGTERM, caffe_binary(), *arguments], threads)


def start_logged(command: list[str], threads: int) -> subprocess.Popen[str]:
    """Start a program that runs Caffe, in the repository root; its log is read from the child's stdout.

    It gets a session of its own: Ctrl-C reaches it only when we pass it on, once. It ends at the latest with the thread
    that calls this.
    """
    return subprocess.Popen(
        ending_with_parent(command),
        cwd=ROOT,
        env=environment(threads),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )


def read_log(child: subprocess.Popen[str]) -> str:
    """The whole log of a child that ends by itself. After Ctrl-C it would go on alone: it is killed."""
    try:
        return child.stdout.read()
    except BaseException:
        child.kill()
        raise
