"""The Debian side: package lists, and where the source package is looked for."""

import os
import re
import shutil
import subprocess
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
    result = run(DOCKER / "install_packages.sh", "build", "run", "python", PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_unknown_list() -> None:
    result = run(DOCKER / "install_packages.sh", "tools")
    assert result.returncode == 1
    assert result.stderr.startswith("install_packages: no list 'tools' in ")


def test_failed_installation_names_the_packages(tmp_path: Path) -> None:
    """The end of apt-get's own words, then what was wanted of it. apt-get is a stand-in here, as is its list."""
    script = tmp_path / "install_packages.sh"
    script.write_text((DOCKER / "install_packages.sh").read_text())
    script.chmod(0o755)
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages/one.txt").write_text("# why\nno-such-package  \n\n")
    for name, text in (("apt-get", 'echo "E: Unable to locate it"; exit 100'), ("sudo", 'exec "$@"')):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    result = run(script, "one", PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert result.returncode == 1
    assert result.stdout == "installing 1 Debian packages: no-such-package\n"
    assert result.stderr == ("E: Unable to locate it\ninstall_packages: apt-get could not install: no-such-package\n")


def test_a_component_is_named_for_one_call(tmp_path: Path) -> None:
    """apt-get, a stand-in, is shown an entry for the component beside the machine's own entries."""
    for name in ("install_packages.sh", "debian_sources.sh"):
        shutil.copy(DOCKER / name, tmp_path)
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages/one.txt").write_text("no-such-package  contrib non-free\nno-such-other\n")
    (tmp_path / "packages/two.txt").write_text("no-such-other\n")
    log = tmp_path / "log"
    show = 'echo "$@"; for o; do case $o in *Parts=*) cat "${o#*=}"/*; ls "${o#*=}" ;; esac; done'
    for name, text in (("apt-get", f"{{ {show}; }} >>'{log}'"), ("sudo", 'exec "$@"')):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    result = run(tmp_path / "install_packages.sh", "one", PATH=path)
    assert (result.returncode, result.stdout) == (0, "installing 2 Debian packages: no-such-package no-such-other\n")
    shown = log.read_text()
    assert shown.count(" install -y --no-install-recommends no-such-package no-such-other\n") == 1
    suite = rf"(?m)^deb .* {RELEASE} contrib non-free$|^Suites: {RELEASE}\nComponents: contrib non-free$"
    assert len(re.findall(suite, shown)) >= 2  # once for update, once for install
    own = [path.name for path in Path("/etc/apt/sources.list.d").iterdir() if path.suffix in (".list", ".sources")]
    assert all(name in shown for name in own)
    log.unlink()
    assert run(tmp_path / "install_packages.sh", "two", PATH=path).returncode == 0
    assert "Parts=" not in log.read_text()


def source_entries(
    tmp_path: Path, lines: str = "", entries: str = "", made: tuple[str, str, str] = ("deb-src", "oldrelease", "main")
) -> str:
    """Return the entries made, of a type, a release and a component, from apt source files of the two formats."""
    apt = tmp_path / "apt"
    (apt / "sources.list.d").mkdir(parents=True)
    if lines:
        (apt / "sources.list").write_text(lines)
    if entries:
        (apt / "sources.list.d/debian.sources").write_text(entries)
    result = run(DOCKER / "debian_sources.sh", *made, tmp_path / "made", apt)
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
    assert re.sub(" +", " ", made) == "deb-src [arch=amd64 signed-by=/key.gpg] copy:/archive oldrelease main"


def test_packages_of_another_component(tmp_path: Path) -> None:
    made = ("deb", RELEASE, "contrib non-free")
    found = source_entries(
        tmp_path,
        lines=f"deb [arch=amd64] copy:/archive {RELEASE} main\n",
        entries=f"Types: deb\nURIs: copy:/archive\nSuites: {RELEASE}\nComponents: main\nSigned-By: /key.gpg\n",
        made=made,
    )
    paragraph, line = found.split("\n\n")
    assert paragraph.splitlines() == [
        "Types: deb",
        f"Suites: {RELEASE}",
        "Components: contrib non-free",
        "URIs: copy:/archive",
        "Signed-By: /key.gpg",
    ]
    assert line == f"deb [arch=amd64] copy:/archive {RELEASE} contrib non-free"


def test_sources_from_paragraphs(tmp_path: Path) -> None:
    entries = (
        f"Types: deb\nURIs: copy:/off\nSuites: {RELEASE}\nComponents: main\nEnabled: no\n\n"
        f"Types: deb deb-src\n# a comment\nURIs: copy:/archive\nSuites: {RELEASE} {RELEASE}-updates\n"
        "Components: main contrib\nSigned-By:\n -----BEGIN KEY-----\n .\n abc\n\n"
        f"Types: deb\nURIs: copy:/security\nSuites: {RELEASE}-security\nComponents: main\n"
    )
    assert source_entries(tmp_path, entries=entries) == (
        "Types: deb-src\nSuites: oldrelease\nComponents: main\n"
        "URIs: copy:/archive\nSigned-By:\n -----BEGIN KEY-----\n .\n abc"
    )


@pytest.mark.parametrize("lines", ["", "deb copy:/archive otherrelease main\n"])
def test_no_sources(lines: str, tmp_path: Path) -> None:
    message = source_entries(tmp_path, lines=lines)
    assert message.endswith(f"has no entry for Debian {RELEASE}, component main\n")
