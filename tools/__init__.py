"""Programs of the project, each run from the repository root as ``python -m tools.NAME``."""

import os
import signal
import sys
from importlib.util import find_spec

if find_spec("caffe") is None:
    sys.exit(f"error: {sys.executable} finds no caffe: call '. ./env.sh' in this shell first (make setup builds it)")

if sys.flags.optimize > 1:
    sys.exit("error: python -OO, or PYTHONOPTIMIZE=2: programs and libraries here need their docstrings")

# While ``python -m tools.NAME`` still imports, Ctrl-C ends it without a word: nothing has begun (argv is set later).
if sys.argv[:1] == ["-m"] and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from latent_domains.common import pixel_limit

# The number of a standard stream that is closed would be given to the next file: what libraries say would get into it.
for name in ("stdin", "stdout", "stderr"):
    if getattr(sys, name) is None:
        setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w"))  # noqa: PTH123, SIM115

# Before anything imports caffe: in our own processes its log of every layer would bury what a program says.
# latent_domains.common.caffe_process gives the caffe binary, whose log is kept, the full one.
os.environ.setdefault("GLOG_minloglevel", "2")

# Before anything imports matplotlib: a notebook's backend is not installed here, and figures should not depend on the
# user's own settings.
os.environ["MPLBACKEND"] = "agg"
os.environ["MATPLOTLIBRC"] = os.devnull

# ONNX Runtime sends no telemetry, and puts no identifier and no database for it into the cache.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

# And before anything imports OpenCV.
pixel_limit.set_default()
