"""The range of values of a set, by what its pictures use."""

from argparse import Namespace
from pathlib import Path

import cv2
import numpy as np
import pytest
import tifffile

from latent_domains.data.choose_reading import chosen_reading
from latent_domains.data.image_list import Entry
from latent_domains.data.preprocessing import Reading

RAMP = np.arange(64, dtype=np.float64).reshape(8, 8) / 63


def chosen(folder: Path, *, background: object = None, ends: object = None, usual: Reading | None = None) -> Reading:
    entries = [Entry(str(file), file.name, 0) for file in sorted(folder.iterdir())]
    options = Namespace(background=background, range=ends, jobs=2)
    return chosen_reading(options, entries, *([usual] if usual else []))


@pytest.mark.parametrize(
    ("largest", "expected"),
    [((4000, 900), (0, 4095)), ((300, 100), (0, 511)), ((90, 3), (0, 255)), ((32767, 5), (0, 32767)),
     ((32768, 5), None), ((65535, 4095), None)],
)  # fmt: skip
def test_bits_are_those_that_the_set_uses(largest, expected, tmp_path, capsys):
    """A dark picture is no reason for another range, nor are pictures of 8 bits."""
    for number, most in enumerate(largest):
        cv2.imwrite(str(tmp_path / f"{number}.png"), (RAMP * most).round().astype(np.uint16))
        tifffile.imwrite(tmp_path / f"{number}.tif", (RAMP * most / 2).round().astype(np.uint16))
    cv2.imwrite(str(tmp_path / "8.png"), (RAMP * 255).astype(np.uint8))
    (tmp_path / "damaged.png").write_bytes(b"no picture")
    assert chosen(tmp_path).range == expected
    said = capsys.readouterr().err
    assert ("note: 4 pictures of more than 8 bits, such as" in said and "--range" in said) == (expected is not None)


def test_signs_and_fractions_reach_from_the_least_to_the_largest_value(tmp_path, capsys):
    tifffile.imwrite(tmp_path / "a.tif", (RAMP * 3000 - 1000).astype(np.int16))
    tifffile.imwrite(tmp_path / "b.tif", (RAMP * 3000 - 900).astype(np.int16))
    assert chosen(tmp_path).range == (-1000, 2100)
    assert "-1000 becomes black, 2100 white (--range)" in capsys.readouterr().err
    (tmp_path / "a.tif").unlink()
    holes = RAMP.astype("f4") / 4
    holes[0, 0] = np.nan
    tifffile.imwrite(tmp_path / "b.tif", holes)
    assert chosen(tmp_path).range == (float(holes[0, 1]), 0.25)


def test_options_and_a_model_are_heard_before_the_pictures(tmp_path, capsys):
    cv2.imwrite(str(tmp_path / "a.png"), (RAMP * 1000).astype(np.uint16))
    assert chosen(tmp_path, ends=(0.0, 65535.0)).range == (0, 65535)
    model = Reading((1, 2, 3), (0, 2047))
    assert chosen(tmp_path, usual=model) == model
    assert chosen(tmp_path, usual=model, background=(0, 0, 0)) == Reading((0, 0, 0), (0, 2047))
    assert capsys.readouterr().err == ""
