"""The GPU's speed table: its parts on the CPU, and the program where there is no GPU."""

import numpy as np
import pytest

from latent_domains.bench import gpu
from latent_domains.bench.extent import Extent
from tests.gpu import WHY_NO_GPU
from tests.programs import child


def make_copy(size):
    source, target = np.zeros((2, size), np.uint8)
    return lambda: np.copyto(target, source)


@pytest.mark.parametrize("row", gpu.make_rows(lambda: None, make_copy), ids=lambda row: row.name)
def test_each_row_is_measured(row, monkeypatch):
    monkeypatch.setattr(gpu, "STEPS", 1)
    result = row.measure(Extent(0, smallest=True))
    assert result.value > 0
    assert "mDA" in result.detail


def test_steps_are_done_and_waited_for_once(monkeypatch):
    monkeypatch.setattr(gpu, "STEPS", 3)
    done = []
    gpu.together(lambda: done.append("step"), lambda: done.append("wait"))()
    assert done == ["step", "step", "step", "wait"]


def test_the_goals():
    rows = {row.name: row for row in gpu.make_rows(lambda: None, make_copy)}
    assert rows["copy-48×64×112×112"].goal == 1.5
    assert rows["copy-48×64×112×112"].at_most
    assert rows["batchnorm-48×64×112×112"].goal == 1
    assert rows["resnet18"].goal == 1.15
    assert rows["digits"].met(100)  # no goal


def test_list():
    done = child("bench.gpu", "--list", "--only", "batchnorm-48*")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["batchnorm-48×64×112×112", "batchnorm-48×64×56×56", "batchnorm-48×512×7×7"]


@pytest.mark.skipif(WHY_NO_GPU is None, reason="this machine has a GPU")
def test_without_a_gpu_it_says_why():
    done = child("bench.gpu")
    assert done.returncode == 1
    assert f"nothing to measure on: {WHY_NO_GPU}" in done.stderr
    assert "Traceback" not in done.stderr
