"""Shared by all tests: what tools/ tells Caffe and ONNX Runtime before anything imports them; signals are heard."""

import os
import signal

os.environ.setdefault("GLOG_minloglevel", "2")
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

# A shell that starts the suite in the background has it ignore SIGINT, and nohup SIGHUP: every program that is tested
# would inherit that.
for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, usual)

from tests.fixtures import mirror, server, tiny_data, trained, trained_on_sources  # noqa: E402, F401
from tests.marks import pytest_configure, pytest_ignore_collect, pytest_itemcollected  # noqa: E402, F401
from tests.pictures import features, lite0_features, pictures  # noqa: E402, F401
