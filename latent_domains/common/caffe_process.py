"""Running the ``caffe`` binary as a child process."""

import os
import shutil
import site
import subprocess
from collections.abc import Sequence
from pathlib import Path

from latent_domains.common.program import ROOT, ProgramError

UNMOVED_BY_SIGTERM = ("env", "--block-signal=TERM", "sh", "-c", 'exec "$0" "$@"')
"""Command prefix of a child that SIGTERM does not end. SLURM sends SIGTERM to every process of a job, and caffe would
end before it has written a snapshot. The signal is blocked, not ignored: glog in caffe sets its own handler. The shell
is there because env takes a program whose path has an = for a variable."""

_ENDING_WITH_PARENT = ("setpriv", "--pdeathsig", "KILL", "sh", "-c", '[ $PPID = $0 ] || kill -KILL $$; exec "$@"')
"""Command prefix of a child that the kernel kills when its parent ends. The parent's id comes next: with it the shell
checks that the parent has not ended before the kernel was told."""


def ending_with_parent(command: Sequence[str]) -> list[str]:
    """The command of a child that the kernel kills when the thread that started it ends.

    Otherwise a child would go on unnoticed after its parent was killed, perhaps for using too much memory.
    """
    return [*_ENDING_WITH_PARENT, str(os.getpid()), *command]


def caffe_binary() -> str:
    """Path of the ``caffe`` on PATH. Raises ProgramError if there is none."""
    found = shutil.which("caffe")
    if found is None:
        raise ProgramError("no caffe on PATH: run '. ./env.sh' in the repository root (after 'make setup')")
    return found


def environment(threads: int) -> dict[str, str]:
    """A child's environment: so many threads in each layer, one in BLAS (layers divide the work); no progress bars.

    ``caffe`` embeds the interpreter and knows no virtual environment. So PYTHONPATH names this one's packages,
    pycaffe's folder and the repository.
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

    It has its own session, so Ctrl-C reaches it only if we pass it on, once. It ends with the calling thread at the
    latest.
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
    """The whole log of a child that ends by itself. Ctrl-C kills it, since it would go on alone."""
    try:
        return child.stdout.read()
    except BaseException:
        child.kill()
        raise
