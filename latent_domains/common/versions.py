"""Versions, commit and hardware of a result; whether others can check out the code that made it."""

import ctypes
import os
import platform
import shutil
import subprocess
from collections.abc import Collection
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import caffe

from latent_domains.common.program import ROOT

CHANGES = "+changes"
"""Follows a commit in a record if tracked files were changed."""


@cache
def known_commits() -> frozenset[str] | None:
    """Return the commits of the checkout's history; None outside a git checkout, or without the whole history."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists() or (ROOT / ".git/shallow").exists():
        return None
    done = subprocess.run([git, "rev-list", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return frozenset(done.stdout.split()) if done.returncode == 0 else None


def doubts(commits: Collection[str | None], known: Collection[str] | None) -> list[str]:
    """Describe each commit of a result that nobody can check out, one text for each.

    If the history is not ``known``, only changed files are described.
    """
    if known is not None and not any(commits):
        return ["that names no commit"]
    texts = []
    for commit in sorted(filter(None, set(commits))):
        if commit.endswith(CHANGES):
            texts.append(f"of commit {commit[:8]} with changes that are not committed")
        elif known is not None and commit not in known:
            texts.append(f"of commit {commit[:8]}, which is not in this history")
    return texts


def versions() -> dict[str, str | None]:
    """Return the versions of Caffe and of packages that a result depends on; None for one that is not installed."""
    packages = ("numpy", "numba", "protobuf", "lmdb", "opencv-python", "scikit-learn")
    return {
        "caffe": caffe.__version__,
        "python": platform.python_version(),
        **{package: _version(package) for package in packages},
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:  # it may have another name, such as opencv-python-headless
        return None


def commit() -> str | None:
    """Return the repository's commit, with "+changes" if tracked files differ from it; None outside a git checkout."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        return None
    command = [git, "describe", "--always", "--exclude=*", "--abbrev=40", f"--dirty={CHANGES}"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.strip() or None


def hardware(mode: str, gpu: str | None = None) -> dict[str, Any]:
    """Return the processor model, the usable cores, where Caffe computed, and in GPU mode the GPU's name."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    model = next(names, platform.machine())
    return {"processor": model, "cores": len(os.sched_getaffinity(0)), "mode": mode} | ({"gpu": gpu} if gpu else {})


def openblas_kernel() -> str | None:
    """Return the kernel with which Caffe's OpenBLAS multiplies, such as SkylakeX; None if Caffe has another BLAS.

    OpenBLAS chooses it for the processor, or uses ``OPENBLAS_CORETYPE``. Each kernel adds numbers in its own order.
    """
    try:  # in the libraries that Caffe is linked with: NumPy, SciPy and OpenCV bring their own
        name = ctypes.CDLL(caffe._caffe.__file__).openblas_get_corename
    except AttributeError:
        return None
    name.restype = ctypes.c_char_p
    return name().decode()
