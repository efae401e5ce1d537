"""Programs of the project, each run from the repository root as ``python -m tools.NAME``."""

import os

from latent_domains.common import pixel_limit

# Before anything imports caffe: in our own processes its log of every layer would bury what a program says.
# latent_domains.common.caffe_process gives the caffe binary, whose log is kept, the full one.
os.environ.setdefault("GLOG_minloglevel", "2")

# And before anything imports OpenCV.
pixel_limit.set_default()
