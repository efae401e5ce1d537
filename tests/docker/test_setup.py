"""tools/setup.sh where there is nothing to install; its steps, which every set-up runs, are stood in for."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from latent_domains.common.program import ROOT

pytestmark = pytest.mark.program

STEPS = ("install_packages.sh", "install_python.sh", "build_caffe.sh")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A folder with the script, steps that do nothing, and a Caffe for GPUs that starts."""
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


def test_a_caffe_for_gpus_whose_libraries_were_moved(clone: Path) -> None:
    (clone / ".caffe/bin/caffe").write_text("#!/bin/sh\necho libcudnn.so.8: cannot open >&2; exit 127\n")
    result = setup(clone)
    assert result.returncode == 1
    assert "libcudnn.so.8: cannot open" in result.stderr and "CAFFE_VARIANT=cuda make setup" in result.stderr


@pytest.mark.parametrize("sign", [*"':,;&$`\\*[#!", '"', "\n", "\t"])
def test_a_folder_that_cannot_be_is_told_before_anything_is_done(sign: str, clone: Path) -> None:
    moved = clone.rename(clone.with_name(f"a{sign}b"))
    result = setup(moved)
    assert result.returncode == 2
    assert result.stderr.startswith(f"setup: {moved}: the name of this folder has a sign that PATH, CMake or a shell")
    assert not (moved / ".build").exists()


def test_files_that_may_not_run(clone: Path) -> None:
    """Those of a file system that is mounted with noexec, or of an archive that was unpacked without permissions."""
    shutil.copy(ROOT / "Makefile", clone)
    for script in (*(clone / "docker").iterdir(), clone / "tools/setup.sh"):
        script.chmod(0o644)
    command = ["make", "--no-print-directory", "setup"]
    done = subprocess.run(command, cwd=clone, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "" and done.stderr.startswith(f"setup: {clone}: no program may run here")
    assert not (clone / ".build").exists()


def test_what_counts_is_where_a_link_leads(clone: Path) -> None:
    """Caffe is built there."""
    good, bad = clone.with_name(f"{clone.name}_link"), clone.with_name(f"{clone.name};b")
    bad.symlink_to(clone)
    assert setup(bad, PWD=str(bad)).returncode == 0
    bad.unlink()
    good.symlink_to(clone.rename(bad))
    result = setup(good)
    assert result.returncode == 2 and result.stderr.startswith(f"setup: {bad}: the name of this folder has a sign")


@pytest.mark.parametrize("name", ["a b(c)+%=@~-_.", "Grüße", "数据"])
def test_a_folder_with_other_signs(name: str, clone: Path) -> None:
    result = setup(clone.rename(clone.with_name(name)))
    assert result.returncode == 0, result.stderr


def test_a_clone_of_somebody_else_that_is_whole(clone: Path) -> None:
    clone.chmod(0o555)
    # Root may write whatever it likes, unless it gives that up.
    as_user = ["setpriv", "--bounding-set=-dac_override"] if os.geteuid() == 0 else []
    result = setup(clone, *as_user)
    clone.chmod(0o755)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert not (clone / ".build").exists()


def test_a_file_system_without_locks(clone: Path) -> None:
    """flock's words and status for ENOSYS, which is Lustre's answer where it is mounted without flock."""
    (clone / "bin").mkdir()
    (clone / "bin/flock").write_text('#!/bin/sh\necho "flock: 9: Function not implemented" >&2\nexit 65\n')
    (clone / "bin/flock").chmod(0o755)
    result = setup(clone, PATH=f"{clone}/bin:{os.environ['PATH']}")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_what_pip_fetches_lies_on_the_disk_of_the_clone(clone: Path) -> None:
    """Unless the user names another place. What a killed set-up left there goes."""
    (clone / ".build/tmp/pip-unpack-1").mkdir(parents=True)
    (clone / "docker/install_python.sh").write_text('#!/bin/sh\necho "$TMPDIR" && ls -A "$TMPDIR"\n')
    assert setup(clone, TMPDIR="").stdout == f"{clone}/.build/tmp\n"
    assert setup(clone, TMPDIR=f"{clone}/bin").stdout.startswith(f"{clone}/bin\n")


@pytest.mark.parametrize("variable", ["PYTHONHOME", "PYTHONPATH", "PYTHONSTARTUP", "PYTHONWARNINGS", "PIP_TARGET"])
def test_nothing_that_the_user_told_python_reaches_the_set_up(variable: str, clone: Path) -> None:
    for step in ("docker/install_python.sh", "docker/build_caffe.sh"):
        (clone / step).write_text(f'#!/bin/sh\n[ -z "${variable}" ]\n')
    result = setup(clone, **{variable: "/nowhere"}, CAFFE_VARIANT="cuda", CUDA_HOME="/opt/cuda")
    assert (result.returncode, result.stderr) == (0, "")


def test_the_kernels_are_compiled_once_and_anew_when_they_change(clone: Path) -> None:
    calls = clone / "calls"
    for source, expected in (("", 1), ("", 1), ("x = 1", 2), ("x = 1", 2)):
        (clone / "caffe_layers/_kernels.py").write_text(source)
        assert setup(clone).returncode == 0
        assert len(calls.read_text().splitlines()) == expected


def test_kernels_that_do_not_compile_end_the_set_up_and_are_tried_again(clone: Path) -> None:
    python = clone / ".venv/bin/python"
    for code in (1, 0):
        python.write_text(f"#!/bin/sh\nexit {code}\n")
        assert setup(clone).returncode == code


def test_ctrl_c_while_the_kernels_compile_shows_no_traceback(clone: Path) -> None:
    (clone / ".venv/bin/python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    interrupted = (
        "def load_all():\n    import os, signal, time\n    os.kill(os.getpid(), signal.SIGINT)\n    time.sleep(60)\n"
    )
    (clone / "caffe_layers/_kernel_cache.py").write_text(interrupted)
    result = setup(clone)
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "")
    assert not (clone / ".build/kernels-key").exists()
