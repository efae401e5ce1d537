"""The rows of the speed table and their goals. No test looks at how long anything took."""

import re

import numpy as np
import pytest

from latent_domains.bench import layers
from latent_domains.bench.rows import Device, Extent
from latent_domains.common.program import ROOT


def make_copy(size):
    source, target = np.zeros((2, size), np.uint8)
    return lambda: np.copyto(target, source)


CPU_ROWS = {row.name: row for row in layers.cpu_rows()}
GPU_ROWS = {row.name: row for row in layers.gpu_rows(Device(1, lambda: None, make_copy))}


@pytest.mark.parametrize(("row", "lower"), [("digits", False), ("traffic-48×64×56×56", True)])
def test_a_goal_is_met_on_its_own_side_of_the_limit(row, lower):
    row = CPU_ROWS[row]
    assert row.met(row.goal)
    assert row.met(0.9 * row.goal) is lower
    assert row.met(1.1 * row.goal) is not lower
    assert GPU_ROWS["digits"].met(100)  # no goal


@pytest.mark.parametrize(("heading", "rows"), [("## The layers", CPU_ROWS), ("## On a GPU", GPU_ROWS)])
def test_the_rows_and_their_goals_are_those_of_the_page(heading, rows):
    page = (ROOT / "results/bench.md").read_text()
    lines = page[page.index(heading) :].partition("| --- |")[2].partition("\n\n")[0].splitlines()[1:]
    shown = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    goals = [
        (name, row.what, "" if row.goal is None else f"{'≤' if row.at_most else '≥'} {row.goal:g}{row.unit}")
        for name, row in rows.items()
    ]
    assert [(name, what, re.sub(", missed$", "", goal)) for name, what, _, goal, _ in shown] == goals


@pytest.mark.parametrize("row", GPU_ROWS.values(), ids=lambda row: row.name)
def test_each_row_of_a_gpu_is_measured(row):
    result = row.measure(Extent(0, smallest=True))
    assert result.value > 0
    assert "mDA" in result.detail


def test_steps_are_done_and_waited_for_once():
    done = []
    Device(3, lambda: done.append("wait")).repeated(lambda: done.append("step"))()
    assert done == ["step", "step", "step", "wait"]
