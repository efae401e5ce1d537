"""The program itself. No test here looks at how long anything took."""

import pytest

from latent_domains.common.versions import openblas_kernel
from tests.gpu import WHY_NO_GPU
from tests.programs import child, program


@pytest.mark.program
def test_bench_a_row_is_measured_and_judged():
    done = child("bench", "--only", "batchnorm-128*", "--seconds", "0.01", "--threads", "1")
    assert done.returncode == 0, done.stderr
    head, titles, row = done.stdout.splitlines()
    assert f"; threads 1, OpenBLAS's kernel {openblas_kernel()}. " in head
    assert titles.split()[:2] == ["row", "what"]
    assert row.startswith("batchnorm-128×4096")
    assert "≥ 1.5×" in row
    assert (" met " in row) != (" MISSED " in row)


@pytest.mark.torch
def test_bench_every_row_is_started():
    """Each is one step on little data. One on one thread is another number of two."""
    done = child("bench", "--smallest", "--only", "*[!1]")
    assert done.returncode == 0, done.stderr
    begun = [line.split()[0] for line in done.stdout.splitlines()[2:]]
    names = program("bench", "--list", "--only", "*[!1]").stdout.split()
    assert "train-lite0-plain-2" in names and begun == names


def test_bench_the_rows_of_a_gpu_are_listed_without_one():
    done = program("bench", "--gpu", 0, "--list", "--only", "batchnorm-48*")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["batchnorm-48×64×112×112", "batchnorm-48×64×56×56", "batchnorm-48×512×7×7"]


@pytest.mark.skipif(WHY_NO_GPU is None, reason="this machine has a GPU")
def test_bench_without_a_gpu_it_says_why():
    done = program("bench", "--gpu", 0)
    assert done.returncode == 1
    assert f"nothing to measure on: {WHY_NO_GPU}" in done.stderr
