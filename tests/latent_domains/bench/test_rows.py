"""The goals of the speed table."""

import re

import pytest

from latent_domains.bench.rows import ROWS, make_parser
from latent_domains.common.program import ROOT


@pytest.mark.parametrize(("row", "lower"), [("digits", False), ("traffic-48×64×56×56", True)])
def test_a_goal_is_met_on_its_own_side_of_the_limit(row, lower):
    (row,) = [each for each in ROWS if each.name == row]
    assert row.met(row.goal)
    assert row.met(0.9 * row.goal) is lower
    assert row.met(1.1 * row.goal) is not lower


def test_the_rows_and_their_goals_are_those_of_the_page():
    page = (ROOT / "results/bench.md").read_text()
    table = page[page.index("## The layers") :].partition("\n\nD = 3")[0]
    shown = re.findall(r"^\| (\S+) \| ([^|]+) \| [^|]+ \| ([≤≥] [^|,]+)(?:, missed)? \| [^|]+ \|$", table, re.MULTILINE)
    assert shown == [(row.name, row.what, f"{'≤' if row.at_most else '≥'} {row.goal:g}{row.unit}") for row in ROWS]


def test_help_shows_what_the_program_says_of_itself_as_it_is_written():
    shown = make_parser("tools.bench", "Measure.\n\nExit code 0,\nor 1.", ["memory-1×2", "digits"]).format_help()
    assert shown.startswith("usage: python -m tools.bench [-h] ")
    assert "\nMeasure.\n\nExit code 0,\nor 1.\n" in shown
    assert shown.endswith("\nRows: memory-1×2, digits\n")
