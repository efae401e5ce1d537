"""The Debian side: package lists, what they need of a system, and which libraries a build needs."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from latent_domains.common.program import ROOT

DOCKER = ROOT / "docker"
RELEASE = re.search(r"^VERSION_CODENAME=(\w+)", Path("/etc/os-release").read_text(), re.MULTILINE)[1]


def run(*command: object, **env: str) -> subprocess.CompletedProcess[str]:
    """Run one of docker's scripts."""
    return subprocess.run(
        list(map(str, command)), env={**os.environ, **env}, capture_output=True, text=True, timeout=60, check=False
    )


def test_installed_packages_need_nothing(tmp_path: Path) -> None:
    """No apt-get and no sudo is called once everything is there."""
    for name in ("apt-get", "sudo"):
        (tmp_path / name).write_text("#!/bin/sh\nexit 9\n")
        (tmp_path / name).chmod(0o755)
    result = run(DOCKER / "install_packages.sh", "build", "python", PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


@pytest.fixture
def system(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return what installs lists on a stand-in for a system.

    Its apt-get notes in ``calls`` what it is told and the entries it is shown; its apt-cache knows a version of Python
    and, if told so, a non-free package. ``no-such…`` are packages that are not installed.
    """
    for name in ("install_packages.sh", "debian_sources.sh"):
        shutil.copy(DOCKER / name, tmp_path)
    write(tmp_path / "packages/one.txt", "# why\nno-such-package  \n\n")
    write(tmp_path / "packages/two.txt", "no-such-driver  contrib non-free\nno-such-other\n")
    calls = tmp_path / "calls"
    show = (
        f'{{ echo "$@"; for o; do case $o in *Parts=*) cat "${{o#*=}}"/*; ls "${{o#*=}}" ;; esac; done; }} >>"{calls}"'
    )
    write(tmp_path / "bin/sudo", '#!/bin/sh\nexec "$@"\n')
    known = 'case $* in *python3) echo "Version: $PYTHON" ;; *driver) [ "$KNOWN" ] && echo Version: 1 ;; esac'
    write(tmp_path / "bin/apt-cache", f"#!/bin/sh\n{known}\n")

    def install(*lists: str, python: str = "3.13.5-1", known: str = "", fails: str = "none"):
        calls.unlink(missing_ok=True)
        refuse = f'case "$*" in *" {fails} "*) echo "E: Unable to locate it"; exit 100 ;; esac'
        write(tmp_path / "bin/apt-get", f"#!/bin/sh\n{show}\n{refuse}\n")
        env = {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "PYTHON": python, "KNOWN": known}
        return run(tmp_path / "install_packages.sh", *lists, **env)

    return install


def write(file: Path, text: str) -> None:
    """Write a file that may be run."""
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    file.chmod(0o755)


def test_failed_installation_names_the_packages(system) -> None:
    """The end of apt-get's own words, then what was wanted of it."""
    result = system("one", fails="install")
    assert result.returncode == 1
    assert result.stdout == "installing 1 Debian packages: no-such-package\n"
    assert result.stderr == ("E: Unable to locate it\ninstall_packages: apt-get could not install: no-such-package\n")


@pytest.mark.parametrize("python", ["3.10.6-1~22.04", "3.15.0-1", ""])
def test_a_system_of_another_age_is_told_what_is_needed(python: str, system, tmp_path: Path) -> None:
    """In one line that names the image, and nothing is installed."""
    result = system("one", python=python)
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1
    assert f"has Python {python}" in result.stderr and "Debian 12 or newer" in result.stderr
    assert "docker build -t latent-domains:cpu" in result.stderr
    assert " install " not in (tmp_path / "calls").read_text()


def test_a_component_is_named_for_one_call(system, tmp_path: Path) -> None:
    """Where apt does not know the package, an entry for the component stands beside the machine's own entries."""
    result = system("two")
    assert (result.returncode, result.stdout) == (0, "installing 2 Debian packages: no-such-driver no-such-other\n")
    shown = (tmp_path / "calls").read_text()
    assert shown.count(" install -y --no-install-recommends no-such-driver no-such-other\n") == 1
    suite = rf"(?m)^deb .* {RELEASE} contrib non-free$|^Suites: {RELEASE}\nComponents: contrib non-free$"
    assert len(re.findall(suite, shown)) >= 2  # once for update, once for install
    own = [path.name for path in Path("/etc/apt/sources.list.d").iterdir() if path.suffix in (".list", ".sources")]
    assert all(name in shown for name in own)
    for lists, known in ((["one"], ""), (["two"], "yes")):
        assert system(*lists, known=known).returncode == 0
        assert "Parts=" not in (tmp_path / "calls").read_text()


def test_the_libraries_of_a_build_are_found() -> None:
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


def source_entries(tmp_path: Path, lines: str = "", entries: str = "", components: str = "non-free") -> str:
    """Return the entries made for components from apt source files of the two formats."""
    apt = tmp_path / "apt"
    (apt / "sources.list.d").mkdir(parents=True)
    if lines:
        (apt / "sources.list").write_text(lines)
    if entries:
        (apt / "sources.list.d/debian.sources").write_text(entries)
    result = run(DOCKER / "debian_sources.sh", components, tmp_path / "made", apt)
    if result.returncode:
        return result.stderr
    return "".join(path.read_text() for path in sorted((tmp_path / "made").iterdir())).rstrip("\n")


def test_sources_from_lines(tmp_path: Path) -> None:
    lines = (
        f"# deb copy:/off {RELEASE} main\n"
        f"deb [arch=amd64 signed-by=/key.gpg]  copy:/archive   {RELEASE} contrib main non-free\n"
        f"deb copy:/archive {RELEASE}-updates main\n"
        f"deb-src copy:/source {RELEASE} main\n"
        f"deb copy:/other {RELEASE} stable\n"
    )
    made = source_entries(tmp_path, lines=lines)
    assert re.sub(" +", " ", made) == f"deb [arch=amd64 signed-by=/key.gpg] copy:/archive {RELEASE} non-free"


def test_sources_from_paragraphs(tmp_path: Path) -> None:
    entries = (
        f"Types: deb\nURIs: copy:/off\nSuites: {RELEASE}\nComponents: main\nEnabled: no\n\n"
        f"Types: deb deb-src\n# a comment\nURIs: copy:/archive\nSuites: {RELEASE} {RELEASE}-updates\n"
        "Components: main contrib\nSigned-By:\n -----BEGIN KEY-----\n .\n abc\n\n"
        f"Types: deb\nURIs: copy:/security\nSuites: {RELEASE}-security\nComponents: main\n"
    )
    assert source_entries(tmp_path, entries=entries) == (
        f"Types: deb\nSuites: {RELEASE}\nComponents: non-free\n"
        "URIs: copy:/archive\nSigned-By:\n -----BEGIN KEY-----\n .\n abc"
    )
