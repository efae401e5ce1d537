"""The range of values of a set, by what its pictures use."""

import os
import shutil
from argparse import Namespace
from pathlib import Path

import cv2
import numpy as np
import pytest
import tifffile

from latent_domains.data.domain_images import read_images
from latent_domains.data.image_list import Entry
from latent_domains.data.inspection import chosen_reading, copies, notes_on_copies, notes_on_labels
from latent_domains.data.preprocessing import Reading
from tests.programs import program
from tests.shapes import plant_domain

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
def test_chosen_reading_bits_are_those_that_the_set_uses(largest, expected, tmp_path, capsys):
    """A dark picture is no reason for another range, nor are pictures of 8 bits."""
    for number, most in enumerate(largest):
        cv2.imwrite(str(tmp_path / f"{number}.png"), (RAMP * most).round().astype(np.uint16))
        tifffile.imwrite(tmp_path / f"{number}.tif", (RAMP * most / 2).round().astype(np.uint16))
    cv2.imwrite(str(tmp_path / "8.png"), (RAMP * 255).astype(np.uint8))
    (tmp_path / "damaged.png").write_bytes(b"no picture")
    assert chosen(tmp_path).range == expected
    said = capsys.readouterr().err
    assert ("note: 4 pictures of more than 8 bits, such as" in said and "--range" in said) == (expected is not None)


def test_chosen_reading_signs_and_fractions_reach_from_the_least_to_the_largest_value(tmp_path, capsys):
    tifffile.imwrite(tmp_path / "a.tif", (RAMP * 3000 - 1000).astype(np.int16))
    tifffile.imwrite(tmp_path / "b.tif", (RAMP * 3000 - 900).astype(np.int16))
    assert chosen(tmp_path).range == (-1000, 2100)
    assert "-1000 becomes black, 2100 white (--range)" in capsys.readouterr().err
    (tmp_path / "a.tif").unlink()
    holes = RAMP.astype("f4") / 4
    holes[0, 0] = np.nan
    tifffile.imwrite(tmp_path / "b.tif", holes)
    assert chosen(tmp_path).range == (float(holes[0, 1]), 0.25)


def test_chosen_reading_options_and_a_model_are_heard_before_the_pictures(tmp_path, capsys):
    cv2.imwrite(str(tmp_path / "a.png"), (RAMP * 1000).astype(np.uint16))
    assert chosen(tmp_path, ends=(0.0, 65535.0)).range == (0, 65535)
    model = Reading((1, 2, 3), (0, 2047))
    assert chosen(tmp_path, usual=model) == model
    assert chosen(tmp_path, usual=model, background=(0, 0, 0)) == Reading((0, 0, 0), (0, 2047))
    assert capsys.readouterr().err == ""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Domains night and dusk, of six pictures each; two of night are in another class, too, three in dusk."""
    for look in ("night", "dusk"):
        plant_domain(tmp_path / look, look, 2)
    for number in range(2):
        shutil.copy(tmp_path / "night" / "disc" / f"{number}.png", tmp_path / "night" / "square" / f"round{number}.png")
    os.link(tmp_path / "night" / "cross" / "0.png", tmp_path / "dusk" / "cross" / "again.png")
    for name in ("disc", "square"):
        shutil.copy(tmp_path / "night" / name / "1.png", tmp_path / "dusk" / name / "7.png")
    return tmp_path


def test_notes_on_copies_notes_count_them_and_name_one(folder):
    images = read_images([folder / "night"], [folder / "dusk"])
    labels, shared = notes_on_copies(images, 2)
    night, dusk = folder / "night", folder / "dusk"
    places = f"{night}/disc/0.png and {night}/square/round0.png"
    assert labels == f"2 pictures: the same picture in two classes, such as {places}"
    assert shared == (
        f"{dusk}: 3 of 9 pictures are also in a source, such as {dusk}/cross/again.png and {night}/cross/0.png: their "
        "labels are trained on, so the accuracy, which counts them, is too high; leave them out of one of the two"
    )
    unlabelled = read_images([folder / "night"], [folder / "dusk"], unlabelled=True)
    assert list(notes_on_copies(unlabelled, 1))[1].endswith("night/cross/0.png; leave them out of one of the two")


def test_copies_other_contents_of_the_same_size_and_files_that_are_empty_or_gone_are_no_copies(tmp_path):
    for name, contents in (("a", b"12"), ("b", b"21"), ("c", b""), ("d", b""), ("e", b"12")):
        (tmp_path / name).write_bytes(contents)
    entries = [Entry(str(tmp_path / name), name, label) for label, name in enumerate("abcdefg")]
    assert [[entry.name for entry in group] for group in copies(entries, 2)] == [["a", "e"]]


def test_notes_on_labels_a_line_of_a_list_may_repeat_a_picture(tmp_path):
    (tmp_path / "a").write_bytes(b"1")
    same, other = ([Entry(str(tmp_path / "a"), "a", label) for label in labels] for labels in ((1, 1), (1, 2)))
    assert list(notes_on_labels(copies(same, 1))) == []
    assert len(list(notes_on_labels(copies(other, 1)))) == 1


@pytest.mark.program
@pytest.mark.parametrize("name", ["build_lmdb", "discover", "extract_features", "adapt"])
def test_inspection_every_program_that_takes_labels_of_folders_says_it(name, folder):
    """Before it ends for want of weights, except for the first."""
    night, dusk, none = folder / "night", folder / "dusk", folder / "none"
    (folder / "both").mkdir()
    for domain in (night, dusk):
        (folder / "both" / domain.name).symlink_to(domain)
    arguments = {
        "build_lmdb": (night, folder / "l"),
        "discover": (night, "--onnx", none, "--early", "x", "--out", folder / "o"),
        "extract_features": (folder / "both", "--onnx", none, "--layer", "x", "--out", folder / "o"),
        "adapt": ("--source", night, "--target", dusk, "--network", "mnist", "--weights", none, "--out", folder / "o"),
    }
    done = program(name, *arguments[name])
    assert done.returncode == (name != "build_lmdb") and (name == "build_lmdb" or "none" in done.stderr)
    said = done.stdout + done.stderr
    assert "note: 2 pictures: the same picture in two classes, such as " in said
    shared = f"{dusk}: 3 of 9" if name == "adapt" else f"{folder}/both/night: 4 of 8"
    assert (f"note: {shared} pictures are also in a source" in said) == (name in ("extract_features", "adapt"))
