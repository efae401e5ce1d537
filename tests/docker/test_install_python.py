"""docker/install_python.sh: what it refuses, and that it does nothing twice; nothing is installed here."""

import hashlib
import subprocess
from pathlib import Path

import pytest

from latent_domains.common.program import ROOT

SCRIPT = ROOT / "docker/install_python.sh"


def install(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([SCRIPT, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("arguments", [[], ["venv"]])
def test_wrong_command_line(arguments: list[str]) -> None:
    result = install(*arguments)
    assert (result.returncode, result.stderr) == (2, "usage: docker/install_python.sh VENV LOCK…\n")


def test_unknown_lock(tmp_path: Path) -> None:
    result = install(tmp_path / "venv", "runtime", "tools")
    assert result.returncode == 1
    assert result.stderr == f"install_python: no requirements/tools.txt in {ROOT}\n"
    assert not (tmp_path / "venv").exists()


def test_an_environment_of_these_locks_needs_nothing(tmp_path: Path) -> None:
    python = subprocess.run(["/usr/bin/python3", "--version"], capture_output=True, text=True, check=True).stdout
    lock = "requirements/dev.txt"
    key = tmp_path / ".setup-key"
    key.write_text(f"{python}{hashlib.sha256((ROOT / lock).read_bytes()).hexdigest()}  {lock}\n")
    before = key.stat().st_mtime_ns, key.stat().st_ino
    result = install(tmp_path, "dev")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert [path.name for path in tmp_path.iterdir()] == [".setup-key"]
    assert (key.stat().st_mtime_ns, key.stat().st_ino) == before
