"""Predictions of images of all kinds, beside the same images in an LMDB."""

import csv
import shutil
from pathlib import Path

import caffe
import cv2
import numpy as np
import pytest

from latent_domains.data.image_datum import Format
from latent_domains.data.image_list import folder_entries
from latent_domains.data.image_lmdb import build
from latent_domains.data.input_batches import batches
from latent_domains.data.preprocessing import Preprocessing
from latent_domains.models.classifier import ModelDescription
from tests.odd_images import odd_images
from tests.programs import names, program
from tests.shapes import LOOKS, picture

pytestmark = pytest.mark.program

FORM = Preprocessing((3, 20, 24), 16, (104.0, 117.0, 123.0), 1 / 64)

NET = """
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 16 dim: 16 } } }
layer { name: "fc" type: "InnerProduct" bottom: "data" top: "fc"
        inner_product_param { num_output: 3 weight_filler { type: "gaussian" std: 0.1 } } }
layer { name: "prob" type: "Softmax" bottom: "fc" top: "prob" }
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """An untrained classifier of three classes, beside its description."""
    prefix = tmp_path / "models" / "small.v1"
    prefix.parent.mkdir()
    net = prefix.with_name("small.v1.prototxt")
    net.write_text(NET)
    caffe.set_random_seed(0)
    caffe.Net(str(net), caffe.TEST).save(str(prefix.with_name("small.v1.caffemodel")))
    prefix.with_name("small.v1.json").write_text(ModelDescription("small", ("cat", "a dog", "élan"), FORM).text())
    return prefix


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Pictures at two depths, with files that are none beside them."""
    folder = tmp_path / "images"
    (folder / "deep" / "er").mkdir(parents=True)
    for number, look in enumerate(LOOKS):
        cv2.imwrite(str(folder / f"{number}.png"), picture("disc", look, number))
        cv2.imwrite(str(folder / "deep" / "er" / f"{number}.png"), picture("cross", look, number))
    (folder / "notes.txt").write_text("no image")
    return folder


def rows(file: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(file.read_text().splitlines()))


def test_predict_odd_images_are_read_as_opencv_reads_them_and_as_an_lmdb_holds_them(model, tmp_path):
    picture_shown = cv2.resize(picture("square", "day", 0), (48, 40))
    found = list(odd_images(tmp_path / "odd", picture_shown))
    entries = {entry.file: entry for entry in folder_entries(tmp_path / "odd")[0]}
    assert set(entries) == {file for file, _, _ in found}
    for file, expected, tolerance in found:
        resized = cv2.resize(expected, (24, 20)).transpose(2, 0, 1)
        build([entries[file]], tmp_path / f"{file.name}_lmdb", Format((20, 24)))
        ((inputs, _),) = batches(tmp_path / f"{file.name}_lmdb", FORM, 1)
        difference = np.abs(inputs - FORM.inputs([resized])).max() / FORM.scale
        assert difference <= tolerance, file.name

    done = program("predict", model, tmp_path / "odd", "--out", tmp_path / "odd.csv", "--jobs", 1)
    assert done.returncode == 0, done.stderr
    net = caffe.Net(f"{model}.prototxt", caffe.TEST, weights=f"{model}.caffemodel")
    for row in rows(tmp_path / "odd.csv"):
        ((inputs, _),) = batches(tmp_path / f"{row['path']}_lmdb", FORM, 1)
        net.blobs["data"].data[...] = inputs
        probabilities = net.forward()["prob"][0]
        assert row["class"] == ("cat", "a dog", "élan")[probabilities.argmax()]
        assert float(row["probability"]) == pytest.approx(probabilities.max(), abs=2e-6)


def test_predict_an_onnx_file_beside_the_model_is_what_runs(model, images, tmp_path):
    files = [f"{model}.{end}" for end in ("prototxt", "caffemodel", "onnx")]
    done = program("export_onnx", *files)
    assert done.returncode == 0, done.stderr
    found = {}
    for name in (model, f"{model}.onnx", f"{model}.caffemodel"):
        done = program("predict", name, images, "--out", tmp_path / "out.csv", "--force", "--jobs", 1)
        assert done.returncode == 0, done.stderr
        found[str(name)] = [
            (row["path"], row["class"], float(row["probability"])) for row in rows(tmp_path / "out.csv")
        ]
    of_caffe = found[f"{model}.caffemodel"]
    for of_onnx in (found[str(model)], found[f"{model}.onnx"]):
        for one, other in zip(of_onnx, of_caffe, strict=True):
            assert one[:2] == other[:2] and one[2] == pytest.approx(other[2], abs=2e-6)

    Path(f"{model}.prototxt").unlink()  # the ONNX file and the description are enough
    weights = Path(f"{model}.caffemodel")
    weights.rename(tmp_path / "w")
    assert program("predict", model, images, "--out", tmp_path / "alone.csv").returncode == 0
    weights.write_bytes((tmp_path / "w").read_bytes()[:-1])
    done = program("predict", model, images, "--out", tmp_path / "none.csv")
    assert done.returncode == 1 and "small.v1.onnx: made of other weights than those in small.v1.caff" in done.stderr
    Path(files[2]).write_bytes(b"no model")
    done = program("predict", files[2], images, "--out", tmp_path / "none.csv")
    assert done.returncode == 1 and "small.v1.onnx: 8 bytes that are not an ONNX model" in done.stderr
    assert not (tmp_path / "none.csv").exists()


def test_predict_a_row_for_each_image_at_any_depth(model, images, tmp_path):
    done = program("predict", f"{model}.caffemodel", images, "--out", tmp_path / "out.csv", "--jobs", 2)
    assert done.returncode == 0, done.stderr
    expected = sorted([f"{n}.png" for n in range(3)] + [f"deep/er/{n}.png" for n in range(3)])
    assert [row["path"] for row in rows(tmp_path / "out.csv")] == expected
    assert set(rows(tmp_path / "out.csv")[0]) == {"path", "class", "probability"}
    assert f"{tmp_path / 'out.csv'}: 6 images\n" in done.stdout
    assert f"{images}: 6 images of 7 files\n" in done.stderr
    again = program("predict", model, images, "--out", tmp_path / "out.csv")
    assert again.returncode == 1 and "exists already" in again.stderr
    assert program("predict", model, images, "--out", tmp_path / "out.csv", "--force", "--jobs", 1).returncode == 0


def test_predict_one_image_is_predicted_by_itself(model, images, tmp_path):
    for name in ("deep/er/1.png", "1"):  # a file that is named needs no ending
        (images / "1").write_bytes((images / "deep" / "er" / "1.png").read_bytes())
        done = program("predict", model, images / name, "--out", tmp_path / "one.csv", "--force", "--jobs", 1)
        assert done.returncode == 0, done.stderr
        (row,) = rows(tmp_path / "one.csv")
        assert row["path"] == Path(name).name
    read = (images / "1.png").read_bytes()
    done = program("predict", model, images, "--out", images / "1.png", "--force", "--jobs", 1)
    assert done.returncode == 1 and "1.png: it is an input file" in done.stderr
    assert (images / "1.png").read_bytes() == read
    done = program("predict", model, images / "notes.txt", "--out", tmp_path / "none.csv", "--jobs", 1)
    assert done.returncode == 1 and f"left out {images / 'notes.txt'}: 8 bytes that OpenCV cannot" in done.stderr


def test_predict_what_cannot_be_read_is_named_and_left_out(model, images, tmp_path):
    whole = cv2.imencode(".jpg", picture("disc", "day", 0))[1].tobytes()
    (images / "cut.jpg").write_bytes(whole[: len(whole) // 2])
    (images / "empty\x1b[2J.png").touch()
    done = program("predict", model, images, "--out", tmp_path / "out.csv", "--jobs", 1)
    assert done.returncode == 0
    assert f"left out {images / 'cut.jpg'}: a JPEG that was cut short" in done.stderr
    assert f"left out {images}/empty\\x1b[2J.png" in done.stderr  # a terminal would obey it
    assert "6 images, 2 left out" in done.stdout and len(rows(tmp_path / "out.csv")) == 6
    shutil.rmtree(images / "deep")
    for file in images.glob("?.png"):
        file.write_bytes(b"no image")
    done = program("predict", model, images, "--out", tmp_path / "none.csv", "--jobs", 1)
    assert done.returncode == 1 and "none of the images could be read" in done.stderr
    assert not (tmp_path / "none.csv").exists() and names(tmp_path) == ["images", "models", "out.csv"]
