import os
import re
import signal
import subprocess
import sys

import pytest

from latent_domains.common.program import ROOT
from tests.programs import child


def test_start_every_program_starts_itself():
    for file in (ROOT / "tools").glob("[!_]*.py"):
        assert f'start("tools.{file.stem}")' in file.read_text(), file


@pytest.mark.program
def test_start_importing_a_program_changes_nothing():
    code = (
        "import os, signal\n"
        "of_process = lambda: (dict(os.environ), signal.getsignal(signal.SIGINT))\n"
        "before = of_process()\n"
        "import tools.watch\n"
        "assert of_process() == before"
    )
    env = {name: os.environ[name] for name in ("PATH", "PYTHONPATH")}
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=env, check=True)


@pytest.mark.program
def test_start_ctrl_c_while_a_program_imports_ends_it_without_a_word(tmp_path):
    (tmp_path / "argparse.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    done = child("watch", env={"PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])})
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


PIXELS = "OPENCV_IO_MAX_IMAGE_PIXELS"


@pytest.mark.program
@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("PYTHONPATH", "", r".* finds no caffe: call '\. \./env\.sh' in this shell first"),
        ("PYTHONOPTIMIZE", "2", "python -OO"),
        (PIXELS, "1e6", f"environment variable {PIXELS}: found '1e6'"),
    ],
)
def test_start_a_variable_that_would_end_a_program_without_a_word_is_named(variable, value, message):
    done = child("watch", "runs", env={variable: value})
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert re.match(f"error: {message}", done.stderr)


@pytest.mark.program
def test_start_packages_of_another_python_are_told_in_a_line(tmp_path):
    """As after ``conda activate``: PYTHONPATH names the packages of this project, and PATH another Python."""
    (tmp_path / "numpy.py").write_text(
        "try:\n  import _umath\nexcept ImportError as error:\n  raise ImportError('a\\npage') from error"
    )
    done = child("watch", env={"PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])})
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert re.match(r"error: .* cannot import what programs need \(No module named '_umath'\): call '\. ", done.stderr)
