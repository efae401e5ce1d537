"""Shared by all tests. Caffe's log of every layer is silenced before anything imports it."""

import os

os.environ.setdefault("GLOG_minloglevel", "2")
