"""The program itself. No test here looks at how long anything took."""

import subprocess
import sys

import pytest

from latent_domains.bench import memory
from latent_domains.bench.rows import ROWS
from latent_domains.common.program import ROOT, ProgramError


def bench(*arguments):
    command = [sys.executable, "-m", "tools.bench", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("row", "lower"), [("digits", False), ("traffic-48×64×56×56", True)])
def test_a_goal_is_met_on_its_own_side_of_the_limit(row, lower):
    (row,) = [each for each in ROWS if each.name == row]
    assert row.met(row.goal)
    assert row.met(0.9 * row.goal) is lower
    assert row.met(1.1 * row.goal) is not lower


def test_every_goal_of_the_table_has_its_rows():
    names = [row.name for row in ROWS]
    assert len(set(names)) == len(names)
    for shape in ("384×32×24×24", "48×64×56×56", "48×64×112×112"):
        assert {f"{kind}-{shape}" for kind in ("batchnorm", "traffic", "domains", "memory")} <= set(names)
    assert {"batchnorm-128×4096", "digits"} <= set(names)


def test_a_row_is_measured_and_judged():
    done = bench("--only", "batchnorm-128*", "--seconds", "0.01", "--threads", "1")
    assert done.returncode == 0, done.stderr
    head, titles, row = done.stdout.splitlines()
    assert "kernel threads 1, BLAS threads" in head
    assert titles.split()[:2] == ["row", "what"]
    assert row.startswith("batchnorm-128×4096")
    assert "≥ 1.5×" in row
    assert (" met " in row) != (" MISSED " in row)


def test_list():
    done = bench("--list", "--only", "memory-*", "share")
    assert done.returncode == 0
    assert done.stdout.split() == ["memory-384×32×24×24", "memory-48×64×56×56", "memory-48×64×112×112", "share"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--only", "speed"], 1, "--only speed: no such row; the rows are batchnorm-384×32×24×24"),
        (["--threads", "100000"], 1, "--threads 100000: expected 1 to "),
        (["--threads", "0"], 2, "got '0', expected a whole number of at least 1"),
        (["--seconds", "-1"], 2, "got '-1', expected a number of seconds above 0"),
        (["--seconds", "x"], 2, "got 'x', expected a number of seconds above 0"),
        (["--iterations", "0"], 2, "got '0', expected a whole number of at least 1"),
    ],
)
def test_bad_arguments(arguments, code, words):
    done = bench(*arguments)
    assert done.returncode == code
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_memory_of_a_layer_is_measured_in_a_process_of_its_own():
    # 64 channels of 64 rows are 0.3 MB of row sums for an x of 67 MB; twice that is room for the allocator.
    share = memory.added_share((64, 64, 64, 64))
    assert -0.005 < share < 0.02


def test_a_measuring_process_that_fails_is_an_error():
    with pytest.raises(ProgramError, match=r"(?s)latent_domains.bench.memory 4 failed: .*N×C×…"):
        memory.added_share((4,))
