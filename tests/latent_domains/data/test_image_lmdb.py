"""LMDBs of pictures that are there already: the same only if their pictures would be read alike."""

from pathlib import Path

import cv2
import numpy as np
import pytest

from latent_domains.common.program import ProgramError
from latent_domains.data.image_datum import Format
from latent_domains.data.image_list import Entry
from latent_domains.data.image_lmdb import plan_of_images
from latent_domains.data.lmdb_folder import read_note
from latent_domains.data.lmdb_plans import PlannedLmdb
from latent_domains.data.preprocessing import USUAL, Reading
from tests.run_folders import edit

ON_BLACK, TWELVE_BITS = Reading((0, 0, 0)), Reading(range=(0, 4095))


def planned(folder: Path, reading: Reading) -> PlannedLmdb:
    entries = [Entry(str(file), file.name, 0) for file in sorted(folder.iterdir())]
    how = {"program": "tests", "order": (0, 0), "jobs": 2, "remedy": ""}
    return plan_of_images(folder.with_name("lmdb"), entries, ("a",), Format((8, 8), reading=reading), **how)


def pictures(folder: Path, channels: int, opacity: int = 0, kind: type = np.uint8) -> Path:
    folder.mkdir()
    for number in range(3):
        image = np.random.default_rng(number).integers(0, 200, (8, 8, channels)).astype(kind)
        image[:4, :, 3:] = opacity
        image[4:, :, 3:] = 255
        cv2.imwrite(str(folder / f"{number}.png"), image)
    return folder


@pytest.mark.parametrize(
    ("channels", "opacity", "kind", "said"),
    [
        (3, 0, np.uint8, {}),
        (4, 255, np.uint8, {}),
        (4, 0, np.uint8, {ON_BLACK: "--background 'white' instead of 'black'"}),
        (3, 0, np.uint16, {TWELVE_BITS: "--range None instead of '0:4095'"}),
    ],
)
def test_plan_of_images_compares_how_they_are_read_where_that_changes_pixels(channels, opacity, kind, said, tmp_path):
    folder = pictures(tmp_path / "in", channels, opacity, kind)
    planned(folder, USUAL).make()
    assert planned(folder, USUAL).is_there()
    for reading in (ON_BLACK, TWELVE_BITS):
        if reading in said:
            with pytest.raises(ProgramError, match=f"lmdb: made with {said[reading]}; pass --force"):
                planned(folder, reading).is_there()
        else:
            assert planned(folder, reading).is_there()


def test_plan_of_images_is_not_one_whose_alpha_was_left_out(tmp_path):
    folder = pictures(tmp_path / "in", 4)
    planned(folder, USUAL).make()
    made_of = read_note(tmp_path / "lmdb").made_of
    edit(tmp_path / "lmdb" / "source.json", made_of.stamp, "that of the pictures alone")
    edit(tmp_path / "lmdb" / "source.json", '"--background": "white"', "")
    with pytest.raises(ProgramError, match="--background None instead of 'white'"):
        planned(folder, USUAL).is_there()
