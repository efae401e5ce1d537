"""Domains go from tools.discover, through somebody's hands, into trainings and on to the next."""

import csv
import re
import shutil
from pathlib import Path

import cv2
import numpy as np
import pytest

from latent_domains.backbones.onnx_backbone import OnnxBackbone
from latent_domains.data import lmdb_io
from latent_domains.domains import statistics
from latent_domains.runs.domain_labels import assigned_domains
from latent_domains.runs.run_folder import RunFolder
from tests import shapes
from tests.programs import program
from tests.shapes import CLASSES, mix_domains, plant_domain

pytestmark = pytest.mark.program


def rows(file: Path) -> list[list[str]]:
    with file.open(newline="") as stream:
        return list(csv.reader(stream))


def write(file: Path, table: list[list[str]]) -> Path:
    with file.open("w", newline="") as stream:
        csv.writer(stream).writerows(table)
    return file


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A source that mixes two looks, 90 pictures, and a target."""
    folder = tmp_path_factory.mktemp("looks")
    looks = [plant_domain(folder / look, look, 15) for look in ("night", "day")]
    mixed = mix_domains(looks, folder / "mixed")
    return mixed, plant_domain(folder / "dusk", "dusk", 5)


def adapt(folders: tuple[Path, Path], out: Path, *options: object):
    source, target = folders
    return program("adapt", "--source", source, "--target", target, "--network", "lite0", "--out", out, *options)


def w_of(out: Path) -> dict[str, np.ndarray]:
    """w that training reads, by the names of the pictures."""
    folder = RunFolder.load(out / "run")
    (w,) = assigned_domains(folder).values()
    return dict(zip(lmdb_io.record_names(folder.train_lmdbs["mixed"]), w, strict=True))


def test_adapt_what_discover_found_is_edited_and_trained_on(folders, tmp_path):
    kinds, out = tmp_path / "kinds", tmp_path / "out"
    assert program("discover", folders[0], "--k", 2, "--out", kinds).returncode == 0
    header, *table = rows(kinds / "domains.csv")
    table[7][1] = str(3 - int(table[7][1]))
    edited = write(tmp_path / "edited.csv", [header, *table])
    done = adapt(folders, out, "--domains", edited, "--iterations", 20)
    assert done.returncode == 0, done.stderr
    assert "multi-source, domains of file" in done.stdout
    w = w_of(out)
    for picture, domain, _ in table:
        assert w[str(Path(picture).relative_to(folders[0]))].tolist() == np.eye(2)[int(domain) - 1].tolist()
    assert "domains of file" in (out / "report.html").read_text()
    names, *found = rows(out / "domains.csv")
    assert names == ["source", "path", "domain", "probability of domain 1", "probability of domain 2"]
    assert {row[1]: row[2] for row in found} == {
        str(Path(picture).relative_to(folders[0])): domain for picture, domain, _ in table
    }
    _new_pictures_have_domains(out, tmp_path, {Path(picture).name[:3]: domain for picture, domain, _ in table[8:]})
    _changed_files_are_refused(folders, out, edited, header, table)
    _the_next_run_has_the_same_w(folders, out, tmp_path / "next")


def test_adapt_finds_what_discover_finds_and_makes_statistics_once(folders, tmp_path, monkeypatch):
    """It counts the same domains, of the same statistics, and trains on the same w."""
    made, features = [], OnnxBackbone.features
    monkeypatch.setattr(statistics, "FOLDER", tmp_path / "statistics")
    monkeypatch.setattr(OnnxBackbone, "features", lambda self, picture: made.append(self) or features(self, picture))
    kinds, out = tmp_path / "kinds", tmp_path / "out"
    done = program("discover", folders[0], "--out", kinds)
    assert done.returncode == 0 and len(made) == 90, done.stderr
    (counted,) = re.findall(r"^90 pictures: (\d) latent domains .*", done.stdout, re.M)
    made.clear()
    done = adapt(folders, out, "--iterations", 20)
    assert done.returncode == 0, done.stderr
    assert f"90 pictures: {counted} latent domains" in done.stdout
    assert f"clusters of style as w, k={counted} on features of lite0" in done.stdout
    assert len(made) == 90 + 15 and len(set(made)) == 1, "features alone"
    w = w_of(out)
    for picture, domain, _ in rows(kinds / "domains.csv")[1:]:
        assert w[str(Path(picture).relative_to(folders[0]))].argmax() == int(domain) - 1
    assert "s₂" in (out / "discovery.html").read_text() and "discovery.html" in (out / "README.txt").read_text()
    made.clear()
    again = adapt(folders, out, "--iterations", 20)
    assert again.returncode == 0 and not made and "latent domains (" not in again.stdout
    (tmp_path / "elsewhere").mkdir()
    copies = shutil.copytree(folders[0], tmp_path / "elsewhere" / "copied")
    done = program("discover", copies, "--out", tmp_path / "kinds of copies")
    assert done.returncode == 0 and not made, "pictures are compared by their contents"


def test_adapt_of_one_domain_the_method_is_dial(folders, tmp_path):
    source = plant_domain(tmp_path / "night", "night", 12)
    done = adapt((source, folders[1]), tmp_path / "out", "--iterations", 20)
    assert done.returncode == 0, done.stderr
    assert "36 pictures: one domain" in done.stdout and "note: the sources are one domain, so the method" in done.stdout
    assert RunFolder.load(tmp_path / "out" / "run").experiment.method.name == "dial"
    assert "one domain" in (tmp_path / "out" / "discovery.html").read_text()
    none = program("predict", tmp_path / "out", source, "--domains", "--out", tmp_path / "new.csv")
    assert none.returncode == 1 and "out: it predicts no domains, expected" in none.stderr
    assert not (tmp_path / "new.csv").exists()
    again = adapt((source, folders[1]), tmp_path / "out", "--iterations", 20)
    assert again.returncode == 0 and "DIAL on features of lite0" in again.stdout


def _new_pictures_have_domains(out: Path, folder: Path, of_looks: dict[str, str]) -> None:
    new = folder / "new"
    new.mkdir(exist_ok=True)
    for number in range(12):
        look = ("night", "day")[number % 2]
        cv2.imwrite(str(new / f"{look}{number}.png"), shapes.picture(CLASSES[number % 3], look, 5000 + number))
    done = program("predict", out, new, "--domains", "--out", new.with_suffix(".csv"), "--force")
    assert done.returncode == 0, done.stderr
    header, *found = rows(new.with_suffix(".csv"))
    assert header == ["path", "class", "probability", "domain", "probability of the domain"] and len(found) == 12
    assert all(0.5 <= float(row[4]) <= 1 for row in found)
    if of_looks:
        assert [row[3] for row in found] == [of_looks[row[0][:3]] for row in found]


def _changed_files_are_refused(folders, out: Path, edited: Path, header: list[str], table: list[list[str]]) -> None:
    again = adapt(folders, out, "--domains", edited, "--iterations", 20)
    assert again.returncode == 0, again.stderr
    table[7][1] = str(3 - int(table[7][1]))
    write(edited, [header, *table])
    for options in (["--domains", edited], []):
        refused = adapt(folders, out, *options, "--iterations", 20)
        assert refused.returncode == 1 and " --domains was " in refused.stderr
    unknown = write(edited, [header, *table, ["mixed/disc/none.png", "1", "1"]])
    refused = adapt(folders, out.with_name("unknown"), "--domains", unknown)
    assert refused.returncode == 1 and "row 92: the picture 'mixed/disc/none.png' is unknown" in refused.stderr
    assert not out.with_name("unknown").exists()


def _the_next_run_has_the_same_w(folders, out: Path, other: Path) -> None:
    """Soft rows, as a run writes them, and one that the branch has to decide."""
    names, *found = rows(out / "domains.csv")
    rng = np.random.default_rng(0)
    for row in found:
        one = rng.random()
        row[2:] = [str(1 + (one < 0.5)), f"{one:.8f}", f"{1 - one:.8f}"]
    found[3][2:] = ["", "", ""]
    soft = write(out.with_name("soft.csv"), [names, *found])
    assert adapt(folders, other, "--domains", soft, "--iterations", 20).returncode == 0
    assert RunFolder.load(other / "run").experiment.method.name == "mda"
    written = rows(other / "domains.csv")[1:]
    assert [row[:3] for row in written if row[1] != found[3][1]] == [row[:3] for row in found if row is not found[3]]
    both = [[float(p) for p in row[3:]] for row in written]
    _new_pictures_have_domains(other, other.parent, {})
    third = other.with_name("third")
    assert adapt(folders, third, "--domains", other / "domains.csv", "--iterations", 20).returncode == 0
    w = w_of(third)
    np.testing.assert_allclose([w[row[1]] for row in written], both, atol=1e-6)
    kept = [row for row in found if row is not found[3]]
    np.testing.assert_allclose([w[row[1]] for row in kept], [[float(p) for p in row[3:]] for row in kept], atol=1e-6)
