"""What a result says of how it was computed; which commits it may be of."""

import os
import subprocess
import sys

import pytest

from latent_domains.common import versions
from latent_domains.common.program import ROOT
from latent_domains.common.versions import doubts, known_commits
from tests.isa import IS_X86

PROGRAM = """
import ctypes
import cv2  # brings another OpenBLAS, which knows fewer processors
from latent_domains.common.versions import openblas_kernel
name = ctypes.CDLL("libopenblas.so.0").openblas_get_corename
name.restype = ctypes.c_char_p
print(openblas_kernel(), name().decode())
"""


@pytest.mark.program
def test_versions_the_kernel_is_that_of_caffes_openblas():
    asked = {key: value for key, value in os.environ.items() if key != "OPENBLAS_CORETYPE"}
    every = "Nehalem" if IS_X86 else "armv8"  # which each processor of its kind runs
    for environment in (asked, {**asked, "OPENBLAS_CORETYPE": every}):
        told, expected = subprocess.check_output(
            [sys.executable, "-c", PROGRAM], env=environment, cwd=ROOT, text=True
        ).split()
        assert told == expected == environment.get("OPENBLAS_CORETYPE", expected)


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A repository with one commit, in the place of ours; and what runs git there."""

    def git(*arguments: str, cwd=tmp_path) -> str:
        name = ("-c", "user.name=a", "-c", "user.email=a@b")
        return subprocess.run(["git", *name, *arguments], cwd=cwd, capture_output=True, text=True, check=True).stdout

    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)  # the user's may sign each commit, or ask for more
    git("init", "--quiet")
    git("commit", "--quiet", "--allow-empty", "--message=first")
    monkeypatch.setattr(versions, "ROOT", tmp_path)
    known_commits.cache_clear()
    yield git
    known_commits.cache_clear()


@pytest.mark.program
def test_known_commits_the_commits_of_the_history_are_known(checkout):
    first = checkout("rev-parse", "HEAD").strip()
    assert known_commits() == {first}
    checkout("commit", "--quiet", "--allow-empty", "--message=second")
    known_commits.cache_clear()
    assert len(known_commits()) == 2


@pytest.mark.program
def test_known_commits_no_commits_are_known_without_the_whole_history(checkout, tmp_path, monkeypatch):
    checkout("commit", "--quiet", "--allow-empty", "--message=second")
    checkout("clone", "--quiet", "--depth=1", f"file://{tmp_path}", "shallow")
    for place in (tmp_path / "shallow", tmp_path / "shallow" / ".git"):
        monkeypatch.setattr(versions, "ROOT", place)
        known_commits.cache_clear()
        assert known_commits() is None


@pytest.mark.parametrize(
    ("commits", "expected"),
    [
        ([], ["that names no commit"]),
        ([None], ["that names no commit"]),
        (["b" * 40, None], []),
        (["b" * 40, "a" * 40, "a" * 40], ["of commit aaaaaaaa, which is not in this history"]),
        (["b" * 40 + "+changes"], ["of commit bbbbbbbb with changes that are not committed"]),
    ],
)
def test_doubts_what_is_doubted_of_a_result(commits, expected):
    assert doubts(commits, {"b" * 40}) == expected
    assert doubts(commits, None) == [text for text in expected if "changes" in text]
