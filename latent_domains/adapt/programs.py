"""Other programs of this project as stages of this one."""

import signal
import subprocess
import sys

from latent_domains.common.caffe_process import ending_with_us
from latent_domains.common.program import ROOT, ProgramError


def program(name: str, *arguments: object) -> None:
    """Run ``python -m tools.NAME ARGUMENTS``; its output is ours. Raises ProgramError if it fails.

    Ctrl-C reaches it once, from here, and it is given the time to clean up.
    """
    sys.stdout.flush()
    with subprocess.Popen(
        ending_with_us([sys.executable, "-m", f"tools.{name}", *map(str, arguments)]),
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    ) as child:
        try:
            code = child.wait()
        except KeyboardInterrupt:
            child.send_signal(signal.SIGINT)
            child.wait()
            raise
    if code:
        raise ProgramError(f"python -m tools.{name} ended with exit code {code}: its message stands above")
