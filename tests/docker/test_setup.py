"""tools/setup.sh where there is nothing to install; its steps, which every set-up runs, are stood in for."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from latent_domains.common.program import ROOT

pytestmark = pytest.mark.program

STEPS = ("install_packages.sh", "install_python.sh", "build_caffe.sh")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A folder with the script, steps that do nothing, and a Caffe that starts."""
    scripts = {f"docker/{step}": "exit 0" for step in STEPS} | {".caffe/bin/caffe": "exit 0"}
    scripts[".venv/bin/python"] = "echo python >>calls"
    for name, script in scripts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "caffe_layers").mkdir()
    (tmp_path / "caffe_layers/_kernels.py").touch()
    (tmp_path / ".venv/.setup-key").touch()
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools/setup.sh", tmp_path / "tools")
    key = tmp_path / ".caffe/share/Caffe/build-key"
    key.parent.mkdir(parents=True)
    key.write_text("variant: cuda\ncuda: 12.4 of /opt/cuda for 90\n")
    return tmp_path


def setup(clone: Path, *become: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [*become, clone / "tools/setup.sh"]
    env = os.environ | env
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("sign", [":", "'", "$", "\n"])
def test_setup_a_folder_that_cannot_be_is_told_before_anything_is_done(sign: str, clone: Path) -> None:
    moved = clone.rename(clone.with_name(f"a{sign}b"))
    result = setup(moved)
    assert result.returncode == 2
    assert result.stderr.startswith(f"setup: {moved}: the name of this folder has a sign that PATH, CMake or a shell")
    assert not (moved / ".build").exists()


@pytest.mark.parametrize("name", ["a b(c)+%=@~-_.", "数据"])
def test_setup_a_folder_with_other_signs(name: str, clone: Path) -> None:
    result = setup(clone.rename(clone.with_name(name)))
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("variable", ["PYTHONPATH", "PIP_TARGET"])
def test_setup_nothing_that_the_user_told_python_reaches_the_set_up(variable: str, clone: Path) -> None:
    for step in ("docker/install_python.sh", "docker/build_caffe.sh"):
        (clone / step).write_text(f'#!/bin/sh\n[ -z "${variable}" ]\n')
    result = setup(clone, **{variable: "/nowhere"}, CAFFE_VARIANT="cuda", CUDA_HOME="/opt/cuda")
    assert (result.returncode, result.stderr) == (0, "")


def test_setup_the_kernels_are_compiled_once_and_anew_when_they_change(clone: Path) -> None:
    calls = clone / "calls"
    for source, expected in (("", 1), ("", 1), ("x = 1", 2), ("x = 1", 2)):
        (clone / "caffe_layers/_kernels.py").write_text(source)
        assert setup(clone).returncode == 0
        assert len(calls.read_text().splitlines()) == expected
