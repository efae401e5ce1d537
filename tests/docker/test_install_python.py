"""docker/install_python.sh: what it refuses, that it does nothing twice, what it mends; nothing is installed here."""

import hashlib
import os
import subprocess
from pathlib import Path

import pytest

from latent_domains.common.program import ROOT

pytestmark = pytest.mark.program

SCRIPT = ROOT / "docker/install_python.sh"


def install(*arguments: object, **env: str) -> subprocess.CompletedProcess[str]:
    command = [SCRIPT, *map(str, arguments)]
    env = os.environ | env
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, check=False)


def stamped(venv: Path) -> Path:
    """Stamp a folder as the environment of the lock dev."""
    python = subprocess.run(["/usr/bin/python3", "--version"], capture_output=True, text=True, check=True).stdout
    locks = ("requirements/build.txt", "requirements/dev.txt")
    key = venv / ".setup-key"
    key.write_text(
        python + "".join(f"{hashlib.sha256((ROOT / lock).read_bytes()).hexdigest()}  {lock}\n" for lock in locks)
    )
    return key


def test_install_python_an_environment_of_these_locks_needs_nothing(tmp_path: Path) -> None:
    key = stamped(tmp_path)
    before = key.stat().st_mtime_ns, key.stat().st_ino
    result = install(tmp_path, "dev")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert [path.name for path in tmp_path.iterdir()] == [".setup-key"]
    assert (key.stat().st_mtime_ns, key.stat().st_ino) == before


def test_install_python_a_package_that_pip_was_cut_off_in_is_not_taken_for_whole(tmp_path: Path) -> None:
    stamped(tmp_path)
    packages = tmp_path / "lib/python3.11/site-packages"
    for name in ("cut_off-1", "whole-1"):
        (packages / f"{name}.dist-info").mkdir(parents=True)
        (packages / f"{name}.dist-info/METADATA").touch()
    (packages / "whole-1.dist-info/INSTALLER").touch()
    assert install(tmp_path, "dev").returncode == 0
    assert [path.name for path in packages.iterdir()] == ["whole-1.dist-info"]


def test_install_python_an_environment_of_a_python_that_debian_replaced_is_made_anew(tmp_path: Path) -> None:
    """Its commands run the new one; its packages, PyTorch among them, are the old one's. Here no new ones are found."""
    venv = tmp_path / ".venv"
    subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", venv], check=True)
    config = venv / "pyvenv.cfg"
    config.write_text(config.read_text().replace("python3.", "python3.0"))
    (library,) = (venv / "lib").iterdir()
    library.rename(venv / "lib/python3.0")
    (venv / ".torch-key").touch()
    done = install(venv, "dev", PIP_NO_INDEX="1", PIP_FIND_LINKS=str(tmp_path), PIP_CONFIG_FILE=os.devnull)
    assert done.returncode == 1 and "No matching distribution found" in done.stderr
    assert [path.name for path in (venv / "lib").iterdir()] == [library.name]
    assert not (venv / ".torch-key").exists() and not (venv / ".setup-key").exists()


def test_install_python_commands_of_an_environment_that_was_moved_are_mended(tmp_path: Path) -> None:
    was, venv = tmp_path / "old" / ".venv", tmp_path / "a new" / ".venv"
    subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", was], check=True)
    stamped(was)
    command = was / "bin" / "pip"
    command.write_text(f"#!{was}/bin/python\nimport sys\nprint(sys.prefix, *sys.argv[1:])\n")
    command.chmod(0o755)
    assert install("--check", was).returncode == 0
    assert install(was, "dev").stdout == ""
    was.parent.rename(venv.parent)
    assert install("--check", venv).returncode == 1
    result = install(venv, "dev")
    assert (result.returncode, result.stdout, result.stderr) == (0, f"{venv} was moved: telling its commands\n", "")
    shown = subprocess.run([venv / "bin" / "pip", "1 2"], capture_output=True, text=True, check=True).stdout
    assert shown == f"{venv} 1 2\n" and str(was) not in (venv / "bin/activate").read_text()
    assert install("--check", venv).returncode == 0
