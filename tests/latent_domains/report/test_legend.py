"""The entries of a legend."""

from latent_domains.report.legend import _MARKS, Key
from latent_domains.report.palette import DASHES, LIGHT, MARKS


def test_every_mark_and_dash_has_its_place_in_a_legend():
    assert set(MARKS) <= set(_MARKS)
    for mark in MARKS:
        for dashes in (*DASHES, None):
            assert "<svg" in Key("x", LIGHT["mda"], mark, dashes).swatch()
    assert "&lt;" in Key("x", LIGHT["mda"], "<b>").swatch()
