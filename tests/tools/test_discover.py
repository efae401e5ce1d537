"""The whole command on pictures of shapes in the looks of several domains."""

import csv
import re
import shutil
from pathlib import Path

import cv2
import pytest

from tests.pictures import sample
from tests.programs import Done, names, program
from tests.shapes import CLASSES, mix_domains, picture, plant_domain

pytestmark = pytest.mark.program


@pytest.fixture(scope="module")
def looks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three domains of 45 pictures each."""
    folder = tmp_path_factory.mktemp("looks")
    for look in ("night", "day", "dusk"):
        plant_domain(folder / look, look, 15)
    return folder


def rows(file: Path) -> list[list[str]]:
    with file.open(newline="") as stream:
        return list(csv.reader(stream))


def text_of(page: Path) -> str:
    return re.sub(r"<[^>]+>", "", page.read_text())


def fails(done: Done, *words: str) -> None:
    assert done.returncode in (1, 2), done.stdout
    (line,) = [line for line in done.stderr.splitlines() if "error: " in line]
    for word in words:
        assert word in line


def test_discover_domains_of_one_folder_of_classes(looks, tmp_path):
    """No domain labels: the pictures of two looks lie in the same class folders."""
    mixed = mix_domains((looks / look for look in ("night", "day")), tmp_path / "mixed")
    out = tmp_path / "out"
    done = program("discover", mixed, "--k", 2, "--out", out, "--jobs", 1, "--figures", out / "figures")
    assert done.returncode == 0, done.stderr
    assert "mixed: 90 images of 90 files" in done.stdout and "90 pictures: 2 latent domains" in done.stdout
    header, *table = rows(out / "domains.csv")
    assert header == ["picture", "domain", "probability"] and len(table) == 90
    by_look = {look: {domain for file, domain, _ in table if f"/{look}_" in file} for look in ("night", "day")}
    assert by_look["night"] != by_look["day"] and all(len(found) == 1 for found in by_look.values())
    assert all(Path(file).is_file() and 0.5 < float(sure) <= 1 for file, _, sure in table)
    text = text_of(out / "report.html")
    assert "90 pictures: 2 latent domains" in text and "cross" in (out / "report.html").read_text()
    assert "block4c, block5c, block6d" in text and "s₂" in text
    assert "  s₁: 45 pictures, stability " in done.stdout and "domain 1" not in done.stdout
    assert "Simple differences" in text and "png 100 %" in text
    assert names(out) == ["domains.csv", "figures", "report.html", "statistics"]
    assert cv2.imread(str(out / "figures" / "latent-domains.png")).std() > 3


def test_discover_of_one_domain_no_picture_is_more_certain_than_others(looks, tmp_path):
    done = program("discover", looks / "night", "--k", 1, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "45 pictures: one domain (as asked)" in done.stdout and "stability" not in done.stdout
    page = (tmp_path / "out" / "report.html").read_text()
    assert "s₁, evenly drawn: 16 pictures" in page and "certain" not in page


def test_discover_folders_are_compared_with_what_is_found_and_k_can_be_asked_for(looks, tmp_path):
    out = tmp_path / "out"
    done = program("discover", *(looks / look for look in ("night", "day", "dusk")), "--k", 3, "--out", out)
    assert done.returncode == 0, done.stderr
    assert (
        "3 latent domains (as asked)" in done.stdout and "against the 3 folders: purity 1.00, NMI 1.00" in done.stdout
    )
    assert "Folders against latent domains" in (out / "report.html").read_text()
    fails(program("discover", looks / "night", "--out", out), "domains.csv exists already", "--force")
    again = program("discover", *(looks / look for look in ("night", "day", "dusk")), "--k", 2, "--out", out, "--force")
    assert again.returncode == 0 and "2 latent domains (as asked)" in again.stdout
    assert "images" not in again.stderr and {row[1] for row in rows(out / "domains.csv")[1:]} == {"1", "2"}
    many = program("discover", *(looks / look for look in ("night", "day", "dusk")), "--k", 20, "--out", out, "--force")
    assert many.returncode == 0 and "These are the 12 largest of 20 latent domains." in text_of(out / "report.html")


def test_discover_a_folder_without_readable_pictures_is_none_to_compare_with(looks, tmp_path):
    """It was one of two folders, of which the other one was found: purity and NMI 1."""
    few, bad = tmp_path / "few", tmp_path / "bad"
    for shape in CLASSES[:2]:
        (few / shape).mkdir(parents=True)
        (bad / shape).mkdir(parents=True)
        shutil.copy(looks / "night" / shape / "0.png", few / shape)
        (bad / shape / "0.png").write_bytes(b"no picture")
    done = program("discover", few, bad, "--skip-unreadable", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "2 pictures: one domain (too few pictures to look for more)" in done.stdout
    assert "purity" not in done.stdout and "Warning" not in done.stderr
    text = text_of(tmp_path / "out" / "report.html")
    assert "to count domains, 40 different pictures are needed" in text and "purity" not in text and "-1.00" not in text


def test_discover_pictures_that_changed_are_not_taken_for_those_that_were_there(looks, tmp_path):
    night, out = tmp_path / "night", tmp_path / "out"
    shutil.copytree(looks / "night", night)
    assert program("discover", night, "--out", out).returncode == 0
    for file in (out / "domains.csv", out / "report.html"):
        file.unlink()
    cv2.imwrite(str(night / "disc" / "0.png"), picture("cross", "day", 9))
    fails(program("discover", night, "--out", out), "statistics/night", "other images", "--force")
    assert program("discover", night, "--out", out, "--force").returncode == 0


def test_discover_pictures_without_labels(looks, tmp_path):
    pile = tmp_path / "pile"
    for look in ("night", "day"):
        for file in (looks / look).rglob("*.png"):
            (pile / "here" / "and").mkdir(parents=True, exist_ok=True)
            shutil.copy(file, pile / "here" / "and" / f"{look}_{file.parent.name}_{file.name}")
    done = program("discover", pile, "--unlabelled", "--k", 2, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    text = text_of(tmp_path / "out" / "report.html")
    assert "The classes were not known" in text and "Shares of the classes" not in text


@pytest.mark.parametrize(("other", "purity"), [("sketch", 0.99), ("art_painting", 0.9)])
def test_discover_photographs_and_others_of_pacs(tmp_path, other, purity):
    folder = sample(tmp_path / "drawn")
    done = program("discover", folder / "photo", folder / other, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    halves = r"halves agree on [23] clusters to \d\.\d\d, halves of one cloud to -?\d\.\d\d"
    assert re.search(halves, done.stdout)
    assert re.search(rf"Of all pictures {halves}, which makes -?\d\.\d\d\.", text_of(tmp_path / "out" / "report.html"))
    if "175 images" in done.stdout:  # the sample, not drawn ones
        assert "350 pictures: 2 latent domains" in done.stdout
        assert float(re.search(r"purity ([\d.]+)", done.stdout)[1]) >= purity
