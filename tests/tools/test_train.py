"""Training as a program."""

import os
import shutil
import subprocess
import sys

import pytest

from latent_domains.common.program import ROOT

pytestmark = pytest.mark.program


def test_train_programs_take_paths_relative_to_where_they_are_called(tiny_data, tmp_path):
    shutil.copytree(tiny_data, tmp_path / "data")
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    write = ["write_run", "--data", "data", "--iterations", "2", "--batch-size", "8", "run"]
    for arguments in (write, ["train", "--threads", "1", "run"], ["evaluate", "run"]):
        command = [sys.executable, "-m", f"tools.{arguments[0]}", *arguments[1:]]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
    assert "on usps" in done.stdout
