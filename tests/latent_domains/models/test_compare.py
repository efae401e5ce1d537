"""Differences are relative to the largest value, and nothing that is not finite passes."""

from pathlib import Path

import numpy as np
import pytest

from latent_domains.common.program import ProgramError
from latent_domains.models.compare import Difference, difference, differences, require, worst

ONES = np.ones((2, 3), np.float32)
MODEL = Path("m.caffemodel")


@pytest.mark.parametrize(
    ("expected", "found", "relative"),
    [
        (ONES, ONES, 0.0),
        (4 * ONES, 4 * ONES - 1, 0.25),
        (0 * ONES, 0 * ONES, 0.0),
        (0 * ONES, ONES, np.inf),
        (ONES, np.nan * ONES, np.inf),
        (np.nan * ONES, ONES, np.inf),
        (np.inf * ONES, np.inf * ONES, np.inf),
    ],
)
def test_difference(expected: np.ndarray, found: np.ndarray, relative: float) -> None:
    assert difference("x", expected, found) == Difference("x", relative)


def test_other_shape_is_an_error_with_both() -> None:
    with pytest.raises(ProgramError, match="conv1: found 3×2 values, expected 2×3"):
        difference("conv1", ONES, ONES.T)


def test_require_names_the_worst_and_shows_all() -> None:
    rows = differences({"a": ONES, "b": ONES}, {"a": ONES, "b": 1.01 * ONES})
    assert worst(rows).name == "b"
    require(MODEL, rows, 0.1)
    with pytest.raises(
        ProgramError,
        match=r"^m\.caffemodel: the two sides differ by 1\.0e-02 .* in b, expected at most 0\.0001(?s:.*)a  0\.0e\+00",
    ):
        require(MODEL, rows)
    with pytest.raises(ProgramError, match=r"at most 0\.0001: try others; nothing is written\n"):
        require(MODEL, rows, hint=": try others")
    with pytest.raises(ProgramError, match="inf"):
        require(MODEL, [Difference("a", np.inf)], 1e30)
