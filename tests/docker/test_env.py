"""env.sh puts the project into a shell, from any folder."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from latent_domains.common.program import ROOT

pytestmark = pytest.mark.program

PLAIN = {"PATH": "/usr/bin:/bin", "HOME": os.environ.get("HOME", "/")}


def shell(name: str, script: str, folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a script in the shell ``name``, with next to nothing in its environment."""
    return subprocess.run(
        [name, "-c", script], cwd=folder, env={**PLAIN, **env}, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("name", ["bash", "sh"])
def test_env_from_another_folder(name: str, tmp_path: Path) -> None:
    """``caffe`` itself imports the layers, and with them numba from the virtual environment."""
    result = shell(name, f'. "{ROOT}/env.sh" && command -v caffe && command -v python', tmp_path)
    assert result.stdout.splitlines() == [f"{ROOT}/.caffe/bin/caffe", f"{ROOT}/.venv/bin/python"]
    (tmp_path / "net.prototxt").write_text(
        'layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 4 dim: 3 } } }\n'
        'layer { name: "y" type: "Python" bottom: "x" top: "y"\n'
        '  python_param { module: "caffe_layers" layer: "MDALayer" param_str: \'{"num_domains": 1}\' } }\n'
    )
    result = shell(name, f'. "{ROOT}/env.sh" && caffe time -model net.prototxt -iterations 1', tmp_path)
    assert result.returncode == 0, result.stderr[-2000:]


def test_env_what_the_user_set_is_kept(tmp_path: Path) -> None:
    script = f'. "{ROOT}/env.sh" && echo "$PYTHONPATH $OPENBLAS_NUM_THREADS"'
    assert shell("bash", script, tmp_path).stdout.endswith(" 1\n")
    said = shell("bash", script, tmp_path, PYTHONPATH="/mine", OPENBLAS_NUM_THREADS="2").stdout
    assert said.endswith(":/mine 2\n")


def test_env_a_clone_that_was_moved_is_told(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    for file in ("docker/build_caffe.sh", ".venv/.setup-key", ".venv/bin/pip", ".caffe/bin/caffe"):
        (old / file).parent.mkdir(parents=True, exist_ok=True)
        (old / file).touch(0o755)
    (old / ".venv/bin/pip").write_text(f"#!{old}/.venv/bin/python3\nimport re\n")
    shutil.copy(ROOT / "env.sh", old)
    shutil.copy(ROOT / "docker/install_python.sh", old / "docker")
    result = shell("bash", f'. "{old}/env.sh" && echo "$PATH"', Path("/"))
    assert result.stdout.startswith(f"{old}/.venv/bin:{old}/.caffe/bin:") and result.stderr == ""
    old.rename(new)
    result = shell("bash", f'. "{new}/env.sh" || echo "no: $PATH"', Path("/"))
    assert result.stdout == f"no: {PLAIN['PATH']}\n" and f"env.sh: {new} was moved" in result.stderr


def test_env_before_the_set_up(tmp_path: Path) -> None:
    (tmp_path / "docker").mkdir()
    (tmp_path / "docker/build_caffe.sh").touch()
    shutil.copy(ROOT / "env.sh", tmp_path)
    result = shell("sh", f'. "{tmp_path}/env.sh" || echo "no: $PATH"', Path("/"))
    assert result.stdout == f"no: {PLAIN['PATH']}\n"
    assert result.stderr == f"env.sh: {tmp_path} is not set up yet: run make setup there\n"
