"""Differences are relative to the largest value, and nothing that is not finite passes."""

from pathlib import Path

import cv2
import numpy as np
import pytest

from latent_domains.common.program import ProgramError
from latent_domains.data.preprocessing import Transform
from latent_domains.models import compare
from latent_domains.models.compare import Difference, difference, differences, makers, require, worst
from tests.latent_domains.convert.fold.models import layer
from tests.latent_domains.nets.graphs import parse

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


def test_difference_other_shape_is_an_error_with_both() -> None:
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


def test_makers_are_those_whose_input_is_still_there() -> None:
    text = (
        layer("a", "Softmax", "x", "x")
        + layer("b", "Softmax", "x", "b")
        + layer("c", "ArgMax", "y", "c")
        + layer("d", "ReLU", "y", "y")
        + layer("e", "ArgMax", "y", "e")
        + layer("f", "Softmax", "y", "f")
        + layer("g", "ReLU", "f", "f")
    )
    assert {top: maker.name for top, maker in makers(parse(text)).items()} == {"b": "b", "e": "e"}


SCORES = np.array([[[0.5, 0.1], [0.5 - 1e-7, 0.9], [-4, 0.3]]], np.float32)
"""1×3×2: the first two of the first column are even."""


@pytest.mark.parametrize(
    ("param", "expected", "found", "relative"),
    [
        ("axis: 1", [[[0, 1]]], [[[1, 1]]], 0),
        ("axis: 1", [[[0, 1]]], [[[0, 0]]], 0.2),
        ("axis: -2 top_k: 2", [[[0, 1], [1, 2]]], [[[1, 1], [0, 2]]], 0),
        ("axis: 1 top_k: 2", [[[0, 1], [1, 2]]], [[[0, 1], [2, 2]]], 1.125),
        ("axis: 1", [[[0, 1]]], [[[0, 3]]], np.inf),
        ("axis: 1", [[[0, 1]]], [[[0.5, 1]]], np.inf),
        ("axis: 1", [[[0, 1]]], [[[np.nan, 1]]], np.inf),
        ("axis: 1 out_max_val: true", [[[0.5, 0.9]]], [[[0.5, 0.45]]], 0.5),
        ("top_k: 3", [[[3, 0, 2]]], [[[3, 2, 0]]], 0),
        ("", [[[3]]], [[[0]]], 0.1),
        ("out_max_val: true top_k: 2", [[[3, 0], [0.9, 0.5]]], [[[3, 2], [0.9, 0.5]]], 0),
        ("out_max_val: true top_k: 2", [[[3, 0], [0.9, 0.5]]], [[[3, 2], [0.9, 0]]], 0.5 / 0.9),
    ],
)
def test_differences_the_places_of_an_argmax_are_compared_by_their_scores(
    param: str, expected: list, found: list, relative: float
) -> None:
    made = makers(parse(layer("a", "ArgMax", "x", "a", f"argmax_param {{ {param} }}")))
    (row,) = differences({"x": SCORES, "a": np.array(expected)}, {"a": np.array(found)}, made)
    assert row.relative == pytest.approx(relative, abs=1e-6)


def test_noise_is_pixels_transformed_and_follows_the_seed() -> None:
    plain = compare.noise((3, 5, 6), seed=1)
    assert plain.shape == (compare.NOISE, 3, 5, 6)
    assert plain.min() >= 0
    assert plain.max() <= 255
    shifted = compare.noise((3, 5, 6), seed=1, transform=Transform((10, 20, 30), 0.5))
    np.testing.assert_allclose(shifted[:, 2], (plain[:, 2] - 30) / 2)
    assert (compare.noise((3, 5, 6), seed=2) != plain).any()
    assert compare.noise((7,), seed=0).shape == (compare.NOISE, 7)


def test_images_are_blue_green_red_and_at_most_so_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "IMAGES", 3)
    for i in range(7):
        (tmp_path / "class").mkdir(exist_ok=True)
        cv2.imwrite(str(tmp_path / "class" / f"{i}.png"), np.full((9, 8, 3), (i, 100, 200), np.uint8))
    rows = compare.images(tmp_path, (3, 4, 5), Transform((1, 2, 3)))
    assert rows.shape == (3, 3, 4, 5)
    np.testing.assert_array_equal(rows[:, :, 0, 0], [[i - 1, 98, 197] for i in (0, 3, 6)])
    assert compare.images(tmp_path, (1, 4, 5)).shape == (3, 1, 4, 5)


def test_images_folders_without_readable_images(tmp_path: Path) -> None:
    with pytest.raises(ProgramError, match="no images in it"):
        compare.images(tmp_path, (3, 4, 4))
    with pytest.raises(ProgramError, match="no such folder"):
        compare.images(tmp_path / "none", (3, 4, 4))
    (tmp_path / "a.jpg").write_bytes(b"no image")
    with pytest.raises(ProgramError, match=r"a\.jpg: 8 bytes that OpenCV cannot decode"):
        compare.images(tmp_path, (3, 4, 4))
    with pytest.raises(ProgramError, match="input is 4096, expected an image"):
        compare.images(tmp_path, (4096,))
