"""The command is run in place of the program."""

import sys

import pytest

from tests.programs import child

pytestmark = pytest.mark.program


def test_on_free_gpu_a_command_is_run_with_its_options_and_exit_code():
    done = child("on_free_gpu", sys.executable, "-c", "import sys; print(sys.argv[1:]); sys.exit(3)", "--help", "x")
    assert (done.returncode, done.stdout) == (3, "['--help', 'x']\n")
