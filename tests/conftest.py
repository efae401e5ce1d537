"""Shared by all tests: what tools/ tells Caffe and ONNX Runtime before anything imports them; signals are heard."""

import os

os.environ.setdefault("GLOG_minloglevel", "2")
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

from tests.fixtures import mirror, server, tiny_data, trained, trained_on_sources  # noqa: F401
from tests.marks import pytest_configure, pytest_ignore_collect, pytest_itemcollected  # noqa: F401
from tests.pictures import features, lite0_features, pictures, small_pictures, styles  # noqa: F401
from tests.programs import hear_signals, leave_a_locale_out_that_is_not_there
from tests.shortcuts import evaluation_apart, shortcuts  # noqa: F401

hear_signals()
leave_a_locale_out_that_is_not_there()
