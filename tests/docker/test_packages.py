"""The Debian side: package lists, what they need of a system, and which libraries a build needs."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from latent_domains.common.program import ROOT

pytestmark = pytest.mark.program

DOCKER = ROOT / "docker"


def run(*command: object, **env: str) -> subprocess.CompletedProcess[str]:
    """Run one of docker's scripts."""
    return subprocess.run(
        list(map(str, command)), env={**os.environ, **env}, capture_output=True, text=True, timeout=60, check=False
    )


def test_packages_installed_packages_need_nothing(tmp_path: Path) -> None:
    """No apt-get and no sudo is called once everything is there."""
    for name in ("apt-get", "sudo"):
        (tmp_path / name).write_text("#!/bin/sh\nexit 9\n")
        (tmp_path / name).chmod(0o755)
    result = run(DOCKER / "install_packages.sh", "build", "python", PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


@pytest.fixture
def system(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return what installs lists on a stand-in for a system.

    Its apt-get notes in ``calls`` what it is told; its apt-cache knows a version of Python and, if told so, a non-free
    package. ``no-such…`` are packages that are not installed.
    """
    shutil.copy(DOCKER / "install_packages.sh", tmp_path)
    write(tmp_path / "packages/one.txt", "# why\nno-such-package  \n\n")
    write(tmp_path / "packages/two.txt", "no-such-driver  contrib non-free\nno-such-other\n")
    calls = tmp_path / "calls"
    write(tmp_path / "bin/sudo", '#!/bin/sh\nexec "$@"\n')
    known = 'case $* in *python3) echo "Version: $PYTHON" ;; *) [ "$KNOWN" ] || exit 100; echo Version: 1 ;; esac'
    more = "sleep 0.1; echo Description: nobody may have stopped to read"
    write(tmp_path / "bin/apt-cache", f"#!/bin/sh\n{known}\n{more}\n")

    def install(*lists: str, python: str = "3.13.5-1", known: str = "", fails: str = "none"):
        calls.unlink(missing_ok=True)
        refuse = f'case "$*" in *" {fails} "*) echo "E: Unable to locate it"; exit 100 ;; esac'
        write(tmp_path / "bin/apt-get", f'#!/bin/sh\necho "$@" >>"{calls}"\n{refuse}\n')
        env = {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "PYTHON": python, "KNOWN": known}
        return run(tmp_path / "install_packages.sh", *lists, **env)

    return install


def write(file: Path, text: str) -> None:
    """Write a file that may be run."""
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    file.chmod(0o755)


def test_packages_failed_installation_names_the_packages(system) -> None:
    """The end of apt-get's own words, then what was wanted of it."""
    result = system("one", fails="install")
    assert result.returncode == 1
    assert result.stdout == "installing 1 Debian packages: no-such-package\n"
    assert result.stderr == ("E: Unable to locate it\ninstall_packages: apt-get could not install: no-such-package\n")


@pytest.mark.parametrize("python", ["3.10.6-1~22.04", "3.15.0-1", ""])
def test_packages_a_system_of_another_age_is_told_what_is_needed(python: str, system, tmp_path: Path) -> None:
    """In one line that names the image, and nothing is installed."""
    result = system("one", python=python)
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1
    assert f"has Python {python}" in result.stderr and "Debian 12 or newer" in result.stderr
    assert "docker build -t latent-domains:cpu" in result.stderr
    assert " install " not in (tmp_path / "calls").read_text()


def test_packages_the_libraries_of_a_build_are_found() -> None:
    """What Caffe is linked to itself, by the names that packages have here; no library of a library."""
    if not (ROOT / ".caffe/lib/libcaffe.so").exists() or shutil.which("objdump") is None:
        pytest.skip("needs a Caffe in .caffe/ and binutils")
    zlib = next(Path("/usr/lib").glob("*-linux-gnu/libz.so.1"))
    result = run(DOCKER / "run_packages.sh", ROOT / ".caffe", zlib)
    assert (result.returncode, result.stderr) == (0, "")
    found = result.stdout.split("\n")[:-1]
    assert found == sorted(set(found))
    for name in ("libprotobuf", "libopencv-imgcodecs", "libpython3.", "liblmdb", "libboost-python", "zlib1g"):
        assert len([package for package in found if package.startswith(name)]) == 1, name
    assert not [package for package in found if "gdal" in package or package.endswith("-dev")]
    # The packages are installed, so that a list of them asks for nothing.
    query = subprocess.run(["dpkg-query", "-W", *found], capture_output=True, text=True, check=False)
    assert query.returncode == 0, query.stderr
