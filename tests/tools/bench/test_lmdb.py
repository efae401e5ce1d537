import re

import cv2
import numpy as np
import pytest

from latent_domains.bench import lmdbs
from tests.programs import names, program


@pytest.mark.program
def test_every_program_has_its_line(tmp_path):
    (tmp_path / "images" / "deep").mkdir(parents=True)
    cv2.imwrite(str(tmp_path / "images" / "deep" / "x.jpg"), np.zeros((50, 40, 3), np.uint8))
    (tmp_path / "tmp").mkdir()
    options = ("--count", 20, "--side", 16, "--rounds", 1, "--jobs", 2)
    done = program("bench.lmdb", *options, "--images", tmp_path / "images", "--tmp", tmp_path / "tmp")
    assert done.returncode == 0, done.stderr
    for store in ("raw", "jpg"):
        for label in ("convert_imageset", "build_lmdb --jobs 2"):
            assert re.search(rf"^{store} +{label} +\d+ +\d+\.\d\d +\d+\.\d\d$", done.stdout, re.MULTILINE), done.stdout
    assert names(tmp_path / "tmp") == []


def test_ratios_are_taken_round_by_round(tmp_path, monkeypatch):
    seconds = iter([4, 2, 1, 6, 2, 2, 9, 3, 1] + 9 * [5])
    monkeypatch.setattr(lmdbs, "_seconds", lambda command, out: next(seconds))
    done = program("bench.lmdb", "--count", 60, "--rounds", 3, "--tmp", tmp_path)
    lines = [line.split() for line in done.stdout.splitlines() if line.startswith("raw")]
    assert [line[-5:] for line in lines] == [
        ["10", "1.00", "1.00", "1.00", "1.00"],
        ["30", "3.00", "2.00", "3.00", "3.00"],
        ["60", "4.00", "4.00", "3.00", "9.00"],
    ]


def test_without_images_the_set_is_made_of_photographs(tmp_path):
    lmdbs.make_set(tmp_path, None, 12, seed=0)
    images = [cv2.imread(str(tmp_path / name)) for name in names(tmp_path)]
    assert len(images) == 12 and all(image.shape == (227, 227, 3) for image in images)
    assert len({image.tobytes() for image in images}) == 12


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--count", "0"], 2, "--count: got '0', expected a whole number of at least 1"),
        (["--jobs", "1", "0"], 2, "--jobs: got '0', expected a whole number of at least 1"),
        (["--images", "{tmp}"], 1, "no JPEGs below it"),
    ],
)
def test_a_wrong_command_line_is_explained(tmp_path, options, code, message):
    done = program("bench.lmdb", "--tmp", tmp_path, *(option.format(tmp=tmp_path) for option in options))
    assert done.returncode == code and message in done.stderr
    assert names(tmp_path) == []


def test_caffe_must_be_at_hand(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    done = program("bench.lmdb", "--count", 5)
    assert done.returncode == 1 and "convert_imageset is not on the PATH" in done.stderr
