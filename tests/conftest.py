"""Shared by all tests: Caffe's log of every layer is silenced before anything imports it, and Ctrl-C is heard."""

import os
import signal

os.environ.setdefault("GLOG_minloglevel", "2")

# A shell that starts the suite in the background has it ignore SIGINT, and every program it tests would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
