"""``end_with_parent.py PARENT PROGRAM …`` becomes a program that the kernel kills once the thread that started it ends.

A program of its own, since Python may run no code between fork and exec while there are threads. It imports next to
nothing, so that it takes 20 ms.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    parent, *command = sys.argv[1:]
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # it outlives exec
    if os.getppid() != int(parent):  # the parent was gone before that
        os.kill(os.getpid(), signal.SIGKILL)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores, and exec would hand on
        signal.signal(number, signal.SIG_DFL)
    os.execvp(command[0], command)  # noqa: S606


if __name__ == "__main__":
    main()
