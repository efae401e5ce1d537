"""LMDBs of an adaptation's images."""

import os
import shutil
from pathlib import Path

import cv2
import numpy as np
import pytest

from latent_domains.adapt.adaptation import Adaptation, Learner
from latent_domains.adapt.data import build_lmdbs
from latent_domains.adapt.folder import Paths
from latent_domains.common.program import ProgramError
from latent_domains.data import lmdb_io
from latent_domains.data.domain_images import TaskImages, read_images
from latent_domains.data.lmdb_io import describe
from latent_domains.data.lmdb_plans import classes_of
from tests.programs import names
from tests.shapes import LOOKS, plant_domain


def build(out: Path, images: TaskImages, *, skip_unreadable: bool = False) -> dict[str, int]:
    how = {"jobs": 2, "skip_unreadable": skip_unreadable}
    return build_lmdbs(Adaptation(Paths(out), images, Learner("mnist"), {}, "adapt", **how))


@pytest.fixture
def images(tmp_path):
    night, day, dusk = (plant_domain(tmp_path / look, look, 2) for look in LOOKS)
    return read_images([night, day], [dusk])


def test_build_lmdbs_names_what_is_no_regular_file_and_never_waits_for_it(images, tmp_path, capsys):
    class_folder = tmp_path / "night" / "disc"
    (class_folder / "dangling.png").symlink_to("not there")
    (class_folder / "round.png").symlink_to("round.png")
    (class_folder / "zero.png").symlink_to("/dev/zero")
    os.mkfifo(class_folder / "fifo.png")
    os.mkfifo(tmp_path / "dusk" / "disc" / "fifo.png")
    found = read_images([tmp_path / "night", tmp_path / "day"], [tmp_path / "dusk"])
    with pytest.raises(ProgramError, match=r"(dangling|round|zero|fifo)\.png: .*--skip-unreadable"):
        build(tmp_path / "out", found)
    counts = build(tmp_path / "out", found, skip_unreadable=True)
    assert counts == {"night": 6, "day": 6, "dusk": 6}
    said = capsys.readouterr().err
    for name, why in (("dangling", "No such"), ("round", "Too many"), ("zero", "a FIFO, a"), ("fifo", "a FIFO, a")):
        assert f"left out {class_folder / name}.png: {why}" in said


def test_build_lmdbs_replaces_those_of_other_images_or_classes_until_training_begins(images, tmp_path, capsys):
    paths = Paths(tmp_path / "out")

    def built(found: TaskImages) -> str:
        build(paths.root, found)
        return capsys.readouterr().out

    def with_class(name: str) -> TaskImages:  # after those that are there, so that no label changes
        shutil.copytree(tmp_path / "day" / "cross", tmp_path / "day" / name)
        return read_images([tmp_path / "night", tmp_path / "day"], [tmp_path / "dusk"], allow_missing_classes=True)

    assert built(images).count(": built before") == 0 and built(images).count(": built before") == 3
    more = with_class("triangle")
    assert built(more).count(": built before") == 0
    assert {classes_of(paths.lmdbs / look) for look in LOOKS} == {("cross", "disc", "square", "triangle")}
    paths.run.mkdir()
    assert built(more).count(": built before") == 3
    with pytest.raises(ProgramError, match="night: made with other classes; pass --force"):
        built(with_class("wedge"))


def test_build_lmdbs_notices_other_pictures_of_the_same_name_size_and_time(images, tmp_path, capsys):
    """As uncompressed ones from an archive have them. The same pictures, copied, are the same."""
    file = tmp_path / "day" / "disc" / "0.png"
    picture = cv2.imread(str(file))
    times = (file.stat().st_atime_ns, file.stat().st_mtime_ns)

    def write(picture: np.ndarray) -> None:
        file.write_bytes(cv2.imencode(".bmp", picture)[1].tobytes())
        os.utime(file, ns=times)

    def built(*, in_training: bool) -> str:
        paths = Paths(tmp_path / "out")
        if in_training:
            paths.run.mkdir()
        build(paths.root, images)
        return capsys.readouterr().out

    write(picture)
    assert built(in_training=False).count(": built before") == 0
    write(picture)
    assert built(in_training=False).count(": built before") == 3
    before = lmdb_io.contents(Paths(tmp_path / "out").lmdbs / "day")
    write(255 - picture)
    assert built(in_training=False).count(": built before") == 2, "no training has begun"
    assert lmdb_io.contents(Paths(tmp_path / "out").lmdbs / "day") != before
    write(picture)
    with pytest.raises(ProgramError, match=r"/day: made with other images: their sha256 was \w+, is \w+; pass --force"):
        built(in_training=True)


def test_build_lmdbs_leaves_out_unreadable_images_and_does_not_count_them(images, tmp_path, capsys):
    bad = tmp_path / "night" / "disc" / "0.png"
    bad.write_bytes(b"no image")
    paths = Paths(tmp_path / "my out")
    counts = build(paths.root, images, skip_unreadable=True)
    assert counts == {"night": 5, "day": 6, "dusk": 6}
    assert f"left out {bad}: 8 bytes that OpenCV cannot decode" in capsys.readouterr().err
    assert paths.lmdbs == tmp_path / "my out" / "data" / "my_out" and names(paths.lmdbs) == ["day", "dusk", "night"]
    found = describe(paths.lmdbs / "night")
    assert (found.shape, found.records) == ((3, 28, 28), 5)
    assert found.class_counts == {0: 2, 1: 1, 2: 2}
    assert (paths.lmdbs / "night" / "classes.txt").read_text() == "cross\ndisc\nsquare\n"
    for file in (tmp_path / "day").rglob("*.png"):
        file.write_bytes(b"no image")
    with pytest.raises(ProgramError, match="day: none of the 6 images could be read"):
        build(tmp_path / "other", images, skip_unreadable=True)
