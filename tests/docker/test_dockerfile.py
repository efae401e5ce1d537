"""docker/Dockerfile and .dockerignore, as far as they can be read without an engine."""

import os
import re
import shutil
import subprocess
from fnmatch import fnmatch
from pathlib import Path

import pytest

from latent_domains.common.program import ROOT

DOCKERFILE = ROOT / "docker/Dockerfile"


TEXT = re.sub(r"^ *#.*\n", "", DOCKERFILE.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
STAGES = re.split(r"^FROM ", TEXT, flags=re.MULTILINE)[1:]
"""The stages, each with its lines; lines that continue are joined, comments left out."""


def test_dockerfile_an_argument_is_declared_where_it_is_used() -> None:
    """Docker leaves an argument of the file's head empty in a stage that does not declare it again."""
    for stage in STAGES:
        declared = set(re.findall(r"^ARG (\w+)", stage, re.MULTILINE))
        used = set(re.findall(r"\$\{?(VARIANT|CUDA|CUDNN|CUDA_ARCH_BIN|NON_FREE|VERSION|REVISION)\b", stage))
        assert used <= declared, stage.splitlines()[0]


def ignored(path: str) -> bool:
    """Whether .dockerignore leaves out a path of the context: itself or a folder above it; the last line counts."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    found = False
    for line in (line for line in lines if line and line[0] != "#"):
        pattern, parts = line.removeprefix("!").removeprefix("/"), path.split("/")
        names = parts if pattern.startswith("**/") else ["/".join(parts[: length + 1]) for length in range(len(parts))]
        depth = pattern.removeprefix("**/").count("/")
        if any(name.count("/") == depth and fnmatch(name, pattern.removeprefix("**/")) for name in names):
            found = not line.startswith("!")
    return found


def test_dockerfile_what_is_copied_is_there() -> None:
    for copied in re.findall(r"^COPY (?!.*--from)(.*)", TEXT, re.MULTILINE):
        *paths, _ = [word for word in copied.split() if not word.startswith("--")]
        for path in paths:
            assert path == "." or (list(ROOT.glob(path)) and not ignored(path)), path


def test_dockerfile_what_a_used_checkout_holds_stays_out() -> None:
    """Everything that git ignores is ignored here too, and so is git's own folder."""
    for line in (ROOT / ".gitignore").read_text().split():
        if not line.startswith("!"):
            path = line.strip("/").replace("*.py[cod]", "x.pyc").replace("*", "x")
            assert ignored(path), line
            assert ignored(f"{path}/deeper"), line
    assert ignored(".git/HEAD")
    assert ignored("tools/__pycache__/files.cpython-311.pyc")


@pytest.mark.parametrize("path", ["photos/cat/1.jpg", "model.caffemodel"])
def test_dockerfile_what_is_not_the_project_s_stays_out(path: str) -> None:
    """An image is passed on, which many data sets and people's own pictures may not be."""
    assert ignored(path) and not ignored(f"tools/{path}")


@pytest.mark.program
def test_dockerfile_every_tracked_file_goes_in() -> None:
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("not a git checkout")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert [path for path in listed.split("\0") if path and ignored(path)] == ["runs/.gitignore"]


@pytest.mark.program
@pytest.mark.parametrize(
    ("machine", "variant", "cuda", "says"),
    [
        ("amd64", "cpu", "13", ""),
        ("arm64", "cpu", "13", ""),
        ("arm64", "cuda", "13", ""),
        ("arm64", "cuda", "11.8", r"CUDA=11\.8: only DEBIAN=bookworm on x86-64 has it, not \w+ on arm64\n"),
        (
            "riscv64",
            "cpu",
            "13",
            r"this image is for x86-64 and ARM .*, not for riscv64: pass --platform .*\n",
        ),
        ("amd64", "cuda", "12", r"CUDA=12: expected 13 or 11\.8\n"),
        ("amd64", "gpu", "13", "VARIANT=gpu: expected cuda or cpu\n"),
    ],
)
def test_dockerfile_what_is_built_for_which_machine(
    tmp_path: Path, machine: str, variant: str, cuda: str, says: str
) -> None:
    dpkg = tmp_path / "dpkg"
    dpkg.write_text(f"#!/bin/sh\necho {machine}\n")
    dpkg.chmod(0o755)
    first = re.search(r"^RUN (.*)", STAGES[0], re.MULTILINE)
    assert first
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "VARIANT": variant, "CUDA": cuda}
    done = subprocess.run(["sh", "-c", first[1]], env=environment, capture_output=True, text=True)
    assert re.fullmatch(says, done.stderr) and done.returncode == (1 if says else 0)
