"""Shared by all tests: libraries are prepared as for programs, before anything imports them; signals are heard."""

from latent_domains.common.start import prepare_libraries
from tests.programs import hear_signals, leave_a_locale_out_that_is_not_there

pytest_plugins = ["tests.fixtures", "tests.marks", "tests.pictures"]

prepare_libraries()
hear_signals()
leave_a_locale_out_that_is_not_there()
