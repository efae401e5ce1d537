"""env.sh puts the project into a shell, whichever shell and wherever it stands."""

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
def test_from_another_folder(name: str, tmp_path: Path) -> None:
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


@pytest.mark.parametrize("name", ["bash", "sh"])
def test_the_last_one_counts(name: str, tmp_path: Path) -> None:
    """Also where its folders are in the lists already, behind those of another checkout or of one that was moved."""
    show = (
        f'. "{ROOT}/env.sh" && echo "$PATH $PYTHONPATH"; set | grep ^_cld || true'  # it leaves no variable of its own
    )
    alone = shell(name, show, tmp_path).stdout.split()
    path, pythonpath = (f"/gone/.venv:{ours}:/gone/more" for ours in alone)
    said = shell(name, f'PATH="{path}"; PYTHONPATH="{pythonpath}"; {show}', tmp_path).stdout.split()
    for found, ours in zip(said, alone, strict=True):
        folders = found.split(":")
        mine = [folder for folder in ours.split(":") if folder.startswith(f"{ROOT}")]
        assert folders[: len(mine)] == mine and len(set(folders)) == len(folders) and "" not in folders
        assert set(folders) == {*ours.split(":"), "/gone/.venv", "/gone/more"}


@pytest.mark.parametrize("name", ["bash", "sh"])
def test_the_shells_own_options_change_nothing_and_stay(name: str, tmp_path: Path) -> None:
    load = f'. "{ROOT}/env.sh" && echo "$PYTHONPATH"'
    result = shell(name, f"set -efuCa; {load} $-", tmp_path)
    paths, _, options = result.stdout.strip().rpartition(" ")
    assert paths == shell(name, load, tmp_path).stdout.strip()
    assert set("efuCa") <= set(options) and not result.stderr


def test_files_are_utf8_in_any_locale(tmp_path: Path) -> None:
    script = f". \"{ROOT}/env.sh\" && python -c \"open('file', 'w').write('\\u2026')\""
    result = shell("bash", script, tmp_path, LC_ALL="POSIX", PYTHONCOERCECLOCALE="0", PYTHONUTF8="0")
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "file").read_bytes() == b"\xe2\x80\xa6"


def test_the_home_of_another_python_is_left_out(tmp_path: Path) -> None:
    script = f'. "{ROOT}/env.sh" && python -c ""'
    result = shell("bash", script, tmp_path, PYTHONHOME=str(tmp_path))
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("name", ["bash", "sh"])
def test_through_a_link_with_a_sign_that_path_takes_for_something_else(name: str, tmp_path: Path) -> None:
    (tmp_path / "a:b").symlink_to(ROOT)
    result = shell(name, f'. "{tmp_path}/a:b/env.sh" && command -v caffe', tmp_path)
    assert (result.stdout, result.stderr) == (f"{ROOT}/.caffe/bin/caffe\n", "")


def test_what_the_user_set_is_kept(tmp_path: Path) -> None:
    script = f'. "{ROOT}/env.sh" && echo "$PYTHONPATH $OPENBLAS_NUM_THREADS"'
    assert shell("bash", script, tmp_path).stdout.endswith(" 1\n")
    said = shell("bash", script, tmp_path, PYTHONPATH="/mine", OPENBLAS_NUM_THREADS="2").stdout
    assert said.endswith(":/mine 2\n")


@pytest.mark.parametrize("name", ["bash", "sh"])
def test_a_clone_that_was_moved_is_told(name: str, tmp_path: Path) -> None:
    """A .venv that is a link to another clone's is in its place."""
    old, new, other = (tmp_path / folder for folder in ("old", "new", "other"))
    for file in ("docker/build_caffe.sh", ".venv/.setup-key", ".venv/bin/pip", ".caffe/bin/caffe"):
        (old / file).parent.mkdir(parents=True, exist_ok=True)
        (old / file).touch(0o755)
    (old / ".venv/bin/pip").write_text(f"#!{old}/.venv/bin/python3\nimport re\n")
    shutil.copy(ROOT / "env.sh", old)
    shutil.copy(ROOT / "docker/install_python.sh", old / "docker")
    shutil.copytree(old, other, ignore=shutil.ignore_patterns(".venv"))
    (other / ".venv").symlink_to(old / ".venv")
    for clone in (old, other):
        result = shell(name, f'. "{clone}/env.sh" && echo "$PATH"', Path("/"))
        assert result.stdout.startswith(f"{clone}/.venv/bin:{clone}/.caffe/bin:") and result.stderr == ""
    old.rename(new)
    result = shell(name, f'. "{new}/env.sh" || echo "no: $PATH"', Path("/"))
    assert result.stdout == f"no: {PLAIN['PATH']}\n"
    assert result.stderr == (
        f"env.sh: {new} was moved, and the commands in its .venv/ were not told: run make setup there\n"
    )


def test_before_the_set_up(tmp_path: Path) -> None:
    (tmp_path / "docker").mkdir()
    (tmp_path / "docker/build_caffe.sh").touch()
    shutil.copy(ROOT / "env.sh", tmp_path)
    result = shell("sh", f'. "{tmp_path}/env.sh" || echo "no: $PATH"', Path("/"))
    assert result.stdout == f"no: {PLAIN['PATH']}\n"
    assert result.stderr == f"env.sh: {tmp_path} is not set up yet: run make setup there\n"
