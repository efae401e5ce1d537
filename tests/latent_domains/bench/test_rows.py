"""The goals of the speed table."""

import pytest

from latent_domains.bench.rows import ROWS, make_parser


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


def test_help_shows_what_the_program_says_of_itself_as_it_is_written():
    shown = make_parser("tools.bench", "Measure.\n\nExit code 0,\nor 1.", ["memory-1×2", "digits"]).format_help()
    assert shown.startswith("usage: python -m tools.bench [-h] ")
    assert "\nMeasure.\n\nExit code 0,\nor 1.\n" in shown
    assert shown.endswith("\nRows: memory-1×2, digits\n")
