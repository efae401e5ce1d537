"""The rule that a test which starts a program has a mark, on tests that keep it and on tests that do not."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from latent_domains.common.program import ROOT

TESTS = """
import subprocess
import pytest

@pytest.fixture(scope="session")
def started():
    return subprocess.run(["true"], check=True)

@pytest.fixture(scope="session")
def on_it(started):
    return started

def test_git_is_allowed():
    subprocess.run(["git", "--version"], check=True)

@pytest.mark.program
def test_marked():
    subprocess.run(["true"], check=True)

@pytest.mark.slow
def test_marked_by_its_fixture(on_it):
    pass

def test_unmarked():
    subprocess.run(["true"], check=True)

def test_unmarked_by_its_fixture(on_it):
    pass

def test_nothing_is_started():
    pass
"""


@pytest.mark.program
@pytest.mark.parametrize(("chosen", "passed"), [((), 4), (("-m", "not program and not slow"), 2)])
def test_what_starts_a_program_unmarked_fails_in_every_call(chosen: tuple[str, ...], passed: int, tmp_path: Path):
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n  program\n  slow\n")
    command = [sys.executable, "-m", "pytest", "-p", "tests.marks", "-q", "-rA", *chosen, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout
    wrong = re.findall(r"(?m)^(?:FAILED|ERROR) .*::(\w+)", done.stdout)
    assert sorted(wrong) == ["test_unmarked", "test_unmarked_by_its_fixture"]
    assert done.stdout.count("\nPASSED ") == passed
    assert "['true'] is started: mark the test, @pytest.mark.program" in done.stdout
