"""The rows of the speed table and their goals. No test looks at how long anything took."""

import itertools
import re

import numpy as np
import pytest

from bench import layers, rows
from bench.rows import Extent, TimedDevice
from latent_domains.common.program import ROOT


def make_copy(size):
    source, target = np.zeros((2, size), np.uint8)
    return lambda: np.copyto(target, source)


CPU_ROWS = {row.name: row for row in layers.cpu_rows()}
GPU_ROWS = {row.name: row for row in layers.gpu_rows(TimedDevice(1, lambda: None, make_copy))}


@pytest.mark.parametrize(("row", "lower"), [("digits", False), ("domains-48×64×56×56", True)])
def test_met_a_goal_is_met_on_its_own_side_of_the_limit(row, lower):
    row = CPU_ROWS[row]
    assert [row.met(share * row.goal) for share in (0.9, 1, 1.1)] == [lower, True, not lower]


@pytest.mark.parametrize(("heading", "found"), [("## The layers", CPU_ROWS), ("## On a GPU", GPU_ROWS)])
def test_rows_the_rows_and_their_goals_are_those_of_the_page(heading, found):
    page = (ROOT / "results/bench.md").read_text()
    lines = page[page.index(heading) :].partition("| --- |")[2].partition("\n\n")[0].splitlines()[1:]
    shown = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    goals = [
        (name, row.what, "" if row.goal is None else f"{'≤' if row.at_most else '≥'} {row.goal:g}×")
        for name, row in found.items()
    ]
    assert [(name, what, re.sub(", missed$", "", goal)) for name, what, _, goal, _ in shown] == goals


def test_extent_each_row_of_a_gpu_is_measured():
    for row in GPU_ROWS.values():
        result = row.measure(Extent(0, smallest=True))
        assert result.value > 0 and "mDA" in result.detail, row.name


def test_timed_device_steps_are_done_and_waited_for_once():
    done = []
    TimedDevice(3, lambda: done.append("wait")).repeated(lambda: done.append("step"))()
    assert done == ["step", "step", "step", "wait"]


def test_time_alternately_medians_of_two_steps_that_take_turns_at_going_first(monkeypatch):
    """The first call of each does not count. A slow phase hits both sides: the ratio within rounds does not see it."""
    now, calls = [0.0], []
    monkeypatch.setattr(rows.time, "perf_counter", lambda: now[0])

    def step(name, durations):
        durations = itertools.cycle(durations)

        def work():
            calls.append(name)
            now[0] += next(durations)

        return work

    sides = step("a", [99, 2, 2, 2, 20, 20, 20, 20]), step("b", [99, 1, 1, 1, 10, 10, 10, 10])
    assert rows.time_alternately(*sides, 5) == (20, 10, 2)
    assert "".join(calls) == "ab" + "abba" * 3 + "ab"
