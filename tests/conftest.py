"""Shared by all tests: libraries are prepared as for programs, before anything imports them; signals are heard."""

import os

from latent_domains.common.start import prepare_libraries
from tests.programs import hear_signals

pytest_plugins = ["tests.fixtures", "tests.marks", "tests.pictures"]

prepare_libraries()
hear_signals()
os.environ["LC_ALL"] = "C.UTF-8"  # bash complains of a locale that is not there, as an ssh from elsewhere may bring
