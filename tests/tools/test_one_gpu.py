"""The command is run in place of the program."""

import os
import sys

from tests.programs import child


def test_a_command_is_run_with_its_options_and_exit_code():
    done = child("one_gpu", sys.executable, "-c", "import sys; print(sys.argv[1:]); sys.exit(3)", "--help", "x")
    assert (done.returncode, done.stdout) == (3, "['--help', 'x']\n")


def test_a_command_that_is_none_is_named():
    done = child("one_gpu", "no-such-command", env={"PATH": os.environ["PATH"]})
    assert (done.returncode, done.stderr) == (1, "error: no-such-command: cannot be run: No such file or directory\n")
    assert child("one_gpu").returncode == 2
