"""fc7 features beside those of Caffe's own forward pass behind a Data layer; ONNX models' beside those by hand."""

import json
import re
import shutil
from pathlib import Path

import caffe
import cv2
import numpy as np
import pytest
from caffe.proto import caffe_pb2
from caffe.proto.caffe_pb2 import Datum
from google.protobuf import text_format
from lmdb import open as open_environment

from latent_domains.backbones import extraction
from latent_domains.common.program import ROOT
from latent_domains.convert.torch.backbone import feature_backbone, get_weights
from latent_domains.data import lmdb_io
from latent_domains.data.input_batches import batches
from latent_domains.experiment import datasets
from latent_domains.experiment.datasets import DATASETS
from latent_domains.experiment.experiment import make_experiment
from latent_domains.nets.training_files import FC7_NET
from latent_domains.networks.lite0 import LITE0
from latent_domains.runs.preflight import check_data
from latent_domains.runs.write import write_run
from tests import onnx_models
from tests.onnx_models import by_hand, model, statistics
from tests.programs import Done, names, program
from tests.shapes import plant_domain
from tests.tolerance import rounding

OFFICE = DATASETS["office31"]


def fill(path: Path, count: int, *, seed: int = 0, encoded: bool = False) -> Path:
    """An LMDB of smooth random images."""
    rng = np.random.default_rng(seed)
    with lmdb_io.create(path) as (writer, _):
        for i in range(count):
            image = cv2.resize(rng.integers(0, 256, (9, 9, 3)).astype(np.uint8), (256, 256))
            label = int(rng.integers(31))
            datum = (
                lmdb_io.encoded_datum(cv2.imencode(".jpg", image)[1].tobytes(), label)
                if encoded
                else lmdb_io.image_datum(image, label)
            )
            writer.put(f"class {i}/{path.name}.jpg", datum)
    return path


def keys_and_labels(path: Path) -> list[tuple[bytes, int]]:
    return [(key, datum.label) for key, datum in lmdb_io.read(path)]


def read_features(path: Path) -> np.ndarray:
    return np.concatenate([inputs for inputs, _ in batches(path, DATASETS["office31_fc7"].preprocessing, 100)])


def behind_a_data_layer(text: str, lmdb: Path, batch_size: int) -> str:
    """The feature net as a user of Caffe alone would write it."""
    net = text_format.Parse(text, caffe_pb2.NetParameter())
    net.layer[0].CopyFrom(caffe_pb2.LayerParameter(name="data", type="Data", top=["data", "label"]))
    net.layer[0].transform_param.crop_size = 227
    net.layer[0].transform_param.mean_value.extend([104, 117, 123])
    net.layer[0].data_param.source = str(lmdb)
    net.layer[0].data_param.batch_size = batch_size
    net.layer[0].data_param.backend = caffe_pb2.DataParameter.LMDB
    return text_format.MessageToString(net)


def save(path: Path, net: caffe.Net, seed: int = 0) -> Path:
    """Give a net random weights that keep its numbers of one size from layer to layer, and save them."""
    rng = np.random.default_rng(seed)  # Caffe's own seed changes, and some nets are all but dead
    for weights, bias in net.params.values():
        weights.data[...] = rng.standard_normal(weights.data.shape) * np.sqrt(2 / weights.data[0].size)
        bias.data[...] = np.linspace(-0.1, 1, len(bias.data))  # small nets would be dead otherwise
    net.save(str(path))
    return path


TERMS = 11 * 11 * 3 + 5 * 5 * 2 + 3 * (3 * 3 * 2) + 6 * 6 * 2 + 4
"""Of the sums in its five convolutions and in fc6 and fc7."""


def small_net() -> str:
    """The feature net with hardly any weights."""
    net = text_format.Parse((ROOT / FC7_NET).read_text(), caffe_pb2.NetParameter())
    for layer in net.layer:
        if layer.type == "Convolution":
            layer.convolution_param.num_output, layer.convolution_param.group = 2, 1
        elif layer.type == "InnerProduct" and layer.name == "fc6":
            layer.inner_product_param.num_output = 4
    return text_format.MessageToString(net)


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with Office-31's three domains, a few images each."""
    data = tmp_path_factory.mktemp("data")
    for i, domain in enumerate(OFFICE.domains):
        fill(data / "office31" / domain, 3 + i, seed=i, encoded=domain == "webcam")
    (data / "office31" / "dslr" / "classes.txt").write_text("back pack\nbike\n")
    return data


@pytest.fixture
def net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Weights of the small net, which takes AlexNet's place."""
    file = tmp_path / "small.prototxt"
    file.write_text(small_net())
    monkeypatch.setattr(extraction, "FC7_NET", str(file))
    return save(tmp_path / "w.caffemodel", caffe.Net(str(file), caffe.TEST))


def extract(weights: Path, images: Path, out: Path, *arguments: object) -> Done:
    return program("extract_features", "office31", "--weights", weights, "--data", images, "--out", out, *arguments)


def test_extract_features_features_are_those_of_caffes_own_forward_pass_image_by_image(images, tmp_path, net):
    lmdb = images / "office31" / "dslr"
    alone = tmp_path / "net.prototxt"
    alone.write_text(behind_a_data_layer(small_net(), lmdb, 1))
    caffe_alone = caffe.Net(str(alone), caffe.TEST, weights=str(net))
    expected = np.concatenate([caffe_alone.forward()["fc7"].copy() for _ in range(4)])
    done = extract(net, images, tmp_path, "--domains", "dslr")
    assert done.returncode == 0, done.stderr
    out = tmp_path / "office31_fc7" / "dslr"
    assert re.fullmatch(rf"{re.escape(str(out))}: 4 images\n4 images in \d+ s: \d+ a second\n", done.stdout)
    assert keys_and_labels(out) == keys_and_labels(lmdb)
    assert (out / "classes.txt").read_text() == "back pack\nbike\n"
    assert (lmdb_io.describe(out).shape, lmdb_io.describe(out).storage) == ((4096, 1, 1), "floats")
    features = read_features(out)[:, :, 0, 0]
    # One image or two at once: only the order of the sums differs.
    np.testing.assert_allclose(features, expected, rtol=0, atol=2 * rounding(TERMS, expected))
    distance = np.abs(features[:, None] - expected).max(axis=2)
    assert (distance.argmin(axis=1) == range(4)).all() and expected.min() < 0, "before the ReLU"
    # Caffe itself reads them.
    reader = tmp_path / "reader.prototxt"
    reader.write_text(
        'layer { name: "d" type: "Data" top: "data" top: "label" '
        f'data_param {{ source: "{out}" batch_size: 4 backend: LMDB }} }}'
    )
    net = caffe.Net(str(reader), caffe.TEST)  # a blob lives as long as its net
    assert np.array_equal(net.forward()["data"], features[:, :, None, None])


def test_extract_features_features_of_other_weights_are_never_reused(images, tmp_path, net):
    out = tmp_path / "out"
    assert extract(net, images, out, "--domains", "amazon").returncode == 0
    before = read_features(out / "office31_fc7" / "amazon")
    other = save(tmp_path / "other.caffemodel", caffe.Net(str(tmp_path / "small.prototxt"), caffe.TEST), seed=1)
    done = extract(other, images, out)
    assert done.returncode == 1
    assert "amazon: made with weights '" in done.stderr and "pass --force to replace it" in done.stderr
    assert names(out / "office31_fc7") == ["amazon"], "nothing was begun"
    assert np.array_equal(read_features(out / "office31_fc7" / "amazon"), before)
    done = extract(other, images, out, "--domains", "amazon", "--force")
    assert done.returncode == 0, done.stderr
    assert not np.allclose(read_features(out / "office31_fc7" / "amazon"), before)


def test_extract_features_of_other_images_are_never_reused(images, tmp_path, net):
    data, out = tmp_path / "data", tmp_path / "out"
    shutil.copytree(images, data)
    lmdb = data / "office31" / "amazon"
    (lmdb / "source.json").unlink()  # as of convert_imageset
    assert extract(net, data, out, "--domains", "amazon").returncode == 0
    assert "amazon: built before" in extract(net, data, out, "--domains", "amazon").stdout
    with lmdb_io.open_lmdb(lmdb) as (_, transaction):
        *_, (key, value) = [(bytes(key), bytes(value)) for key, value in transaction.cursor()]
    datum = Datum.FromString(value)
    datum.data = bytes([datum.data[0] ^ 1]) + datum.data[1:]
    with open_environment(str(lmdb), lock=False) as env, env.begin(write=True) as transaction:
        transaction.put(key, datum.SerializeToString())
    done = extract(net, data, out, "--domains", "amazon")
    assert done.returncode == 1 and "amazon: made with other images: their sha256 was " in done.stderr
    assert extract(net, data, out, "--domains", "amazon", "--force").returncode == 0


# --- bad input


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        ("conv2", "it has no conv2, expected conv1, conv2, conv3, conv4, conv5, fc6, fc7: Caffe would leave"),
        ("fc7", "the features of 'class 0/amazon.jpg' are not finite"),
    ],
)
def test_extract_features_weights_that_would_give_nonsense_are_refused(layer, message, images, tmp_path, net):
    param = caffe_pb2.NetParameter.FromString(net.read_bytes())
    layers = {layer.name: layer for layer in param.layer}
    if layer == "conv2":
        layers[layer].name = "conv2_bn"
    else:
        layers[layer].blobs[1].data[17] = float("nan")
    net.write_bytes(param.SerializeToString())
    done = extract(net, images, tmp_path / "out")
    assert done.returncode == 1 and message in done.stderr
    assert not (tmp_path / "out").exists() or names(tmp_path / "out" / "office31_fc7") == []


# --- ONNX models, on pictures

FORM = ("--early", "one", "second", "--size", "32", "--mean", "100,110,120", "--scale", "0.01")


def onnx_features(file: Path, data: Path, out: Path, *arguments: object) -> Done:
    return program("extract_features", "pacs", "--onnx", file, "--data", data, "--out", out, *arguments)


def expected_rows(lmdb: Path) -> np.ndarray:
    """What the small model with FORM makes of pictures, by hand."""
    rows = []
    for _, datum in lmdb_io.read(lmdb):
        picture = cv2.resize(lmdb_io.datum_image(datum).transpose(1, 2, 0), (32, 32))[12:20, 12:20, ::-1]
        one, two, row = by_hand((picture.transpose(2, 0, 1) - np.reshape((100, 110, 120), (3, 1, 1))) * 0.01)
        rows.append([*row, *statistics(one, two)])
    return np.array(rows)


def test_extract_features_onnx_features_of_pictures_are_those_by_hand(pictures, tmp_path):
    file = onnx_models.save(tmp_path / "small.onnx")
    done = onnx_features(file, pictures, tmp_path, *FORM, "--jobs", 3)
    assert done.returncode == 0, done.stderr
    data = datasets.from_json(json.loads((tmp_path / "pacs_small" / "dataset.json").read_text()))
    assert re.search(r"^56 images in \d+ s: \d+ a second$", done.stdout, re.MULTILINE)
    for domain in DATASETS["pacs"].domains:
        lmdb = tmp_path / "pacs_small" / domain
        found = np.concatenate([inputs for inputs, _ in batches(lmdb, data.preprocessing, 5)])[:, :, 0, 0]
        expected = expected_rows(pictures / "pacs" / domain)
        np.testing.assert_allclose(found, expected, rtol=0, atol=rounding(onnx_models.TERMS, expected))
        assert keys_and_labels(lmdb) == keys_and_labels(pictures / "pacs" / domain)
    experiment = make_experiment(data, "mda", branch_input="early", branch_norm="logits", batch_size=8)
    assert (data.network, data.early, data.shape) == ("features", 14, (20, 1, 1))
    run = write_run(experiment, tmp_path / "run", data=tmp_path)
    check_data(run)
    again = onnx_features(file, pictures, tmp_path, *FORM)
    assert again.stdout.count(": built before\n") == 4 and "a second" not in again.stdout


def test_extract_features_features_of_other_external_weights_are_never_reused(pictures, tmp_path):
    """The model's own file stays as it is."""
    file = tmp_path / "small.onnx"
    data = onnx_models.with_external_data(model(), file)
    arguments = (*FORM, "--domains", "photo")
    assert onnx_features(file, pictures, tmp_path, *arguments).returncode == 0
    assert "photo: built before" in onnx_features(file, pictures, tmp_path, *arguments).stdout

    def features() -> np.ndarray:
        return np.array([datum.float_data for _, datum in lmdb_io.read(tmp_path / "pacs_small" / "photo")])

    before, expected = features(), expected_rows(pictures / "pacs" / "photo")
    np.testing.assert_allclose(before, expected, rtol=0, atol=rounding(onnx_models.TERMS, expected))
    weights = np.fromfile(data, np.float32)
    (weights * 2).tofile(data)
    done = onnx_features(file, pictures, tmp_path, *arguments)
    assert done.returncode == 1 and "photo: made with backbone 'small-" in done.stderr and ", weights '" in done.stderr
    assert np.array_equal(features(), before)
    assert onnx_features(file, pictures, tmp_path, *arguments, "--force").returncode == 0
    assert not np.allclose(features(), before)


def test_extract_features_any_dataset_of_pictures_has_features_of_lite0(images, tmp_path):
    for given, name in (("office31", "office31"), (tmp_path / "mine.json", "mine")):
        arguments = ("--backbone", "lite0", "--domains", "amazon", "--data", tmp_path / "data", "--out", tmp_path)
        if name == "mine":
            given.write_text(json.dumps({**OFFICE.to_json(), "name": "mine"}))
        shutil.copytree(images / "office31", tmp_path / "data" / name)
        done = program("extract_features", given, *arguments)
        assert done.returncode == 0, done.stderr
        description = tmp_path / f"{name}_lite0" / "dataset.json"
        assert done.stdout.endswith(f"{description}: for --dataset of tools.write_run\n")
        data = datasets.from_json(json.loads(description.read_text()))
        assert (data.images, data.features.backbone, data.early, data.classes) == (name, "lite0", 80, 31)
        assert (data.domains, data.sources, data.targets) == (OFFICE.domains, OFFICE.sources, OFFICE.targets)
        (rows,) = [inputs for inputs, _ in batches(tmp_path / data.train_lmdb("amazon"), data.preprocessing, 9)]
        assert rows.shape == (3, 1360, 1, 1)


def test_extract_features_statistics_of_style_are_the_means_of_the_middle_blocks_channels(images, tmp_path):
    """As tools.discover takes them; method style_w reads them by the records' names."""
    arguments = ("--style", "--domains", "dslr", "--data", images, "--out", tmp_path)
    done = program("extract_features", "office31", *arguments)
    assert done.returncode == 0, done.stderr
    assert names(tmp_path) == ["office31_style"] and names(tmp_path / "office31_style") == ["dslr"]
    lmdb = tmp_path / DATASETS["office31"].style / "dslr"
    assert keys_and_labels(lmdb) == keys_and_labels(images / "office31" / "dslr")
    backbone = feature_backbone(LITE0, *get_weights(LITE0), LITE0.backbone.middle)
    pictures, _ = lmdb_io.read_images(images / "office31" / "dslr")
    expected = [backbone.features(picture)[backbone.early_means] for picture in pictures]
    np.testing.assert_array_equal([datum.float_data for _, datum in lmdb_io.read(lmdb)], expected)
    assert len(expected[0]) == 80 + 112 + 192
    done = program("extract_features", "office31", "--style", "--backbone", "lite0", "--out", tmp_path)
    assert done.returncode == 2 and "not allowed with argument" in done.stderr


def test_extract_features_a_folder_of_domains_becomes_lmdbs_of_pictures_and_features(tmp_path):
    for look in ("night", "day", "dusk"):
        plant_domain(tmp_path / "my looks" / look, look, 2)
    shutil.rmtree(tmp_path / "my looks" / "day" / "disc")
    arguments = ("extract_features", tmp_path / "my looks", "--backbone", "lite0", "--out", tmp_path / "data")
    done = program(*arguments)
    assert done.returncode == 0, done.stderr
    assert "dusk: 6 images of 6 files in " in done.stdout and "day: no images of disc, which other" in done.stdout
    file = tmp_path / "data" / "my_looks_lite0" / "dataset.json"
    data = datasets.from_json(json.loads(file.read_text()))
    assert (data.sources, data.targets, data.classes) == (("day", "dusk"), ("night",), 3)
    assert data.counts == {"day": 4, "dusk": 6, "night": 6}
    for domain, number in data.counts.items():
        pictures, features = (tmp_path / "data" / name / domain for name in ("my_looks", "my_looks_lite0"))
        assert keys_and_labels(pictures) == keys_and_labels(features) and lmdb_io.count(features) == number
        assert lmdb_io.describe(pictures).shape == (3, 256, 256)
    assert {label for _, label in keys_and_labels(tmp_path / "data" / "my_looks_lite0" / "day")} == {0, 2}
    done = program("baselines", "logistic", "--dataset", file, "--data", tmp_path / "data", tmp_path / "record.json")
    assert done.returncode == 0, done.stderr
    again = program(*arguments)
    assert again.returncode == 0 and again.stdout.count(": built before\n") == 6
    shutil.rmtree(tmp_path / "my looks" / "dusk" / "disc")
    done = program(*arguments)
    assert done.returncode == 1 and "dusk: made with other images, images 6 instead of 4; pass --force" in done.stderr
