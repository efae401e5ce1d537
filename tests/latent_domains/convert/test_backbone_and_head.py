"""One net from picture to class: of a short run on EfficientNet-Lite0's features of a few pictures."""

from dataclasses import replace
from pathlib import Path

import caffe
import cv2
import numpy as np
import onnxruntime
import pytest

from latent_domains.common.program import ProgramError
from latent_domains.convert import backbone_and_head
from latent_domains.data.input_batches import batches
from latent_domains.data.lmdb_io import read_images
from latent_domains.data.published_file import in_package
from latent_domains.experiment.datasets import DATASETS
from latent_domains.experiment.experiment import make_experiment
from latent_domains.models.model import Array, Model, read_model
from latent_domains.networks.lite0 import LITE0
from latent_domains.runs.run_folder import RunFolder
from latent_domains.runs.write import write_run
from tests.programs import names, program
from tests.training import train_here

pytestmark = pytest.mark.program

TARGETS = ("cartoon", "sketch")


def trained(folder: Path, data: Path, method: str = "mda", **settings: object) -> RunFolder:
    experiment = make_experiment("pacs_lite0", method, iterations=4, batch_size=32, targets=TARGETS[:1], **settings)
    run = write_run(experiment, folder, data=data)
    train_here(run)
    return run


@pytest.fixture(scope="module")
def run(lite0_features: Path, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    settings = {"branch_norm": "logits", "branch_input": "early", "no_w_gradient": True}
    return trained(tmp_path_factory.mktemp("runs") / "mda", lite0_features, **settings)


def by_the_run(run: RunFolder) -> Array:
    """What the head that was trained says of the features that were stored."""
    lmdb = run.test_lmdbs["cartoon"]
    net = caffe.Net(str(run.net("deploy")), caffe.TEST, weights=str(run.latest_snapshot().model))
    ((rows, _),) = batches(lmdb, run.experiment.data.preprocessing, 100)
    net.blobs["data"].reshape(*rows.shape)
    net.blobs["data"].data[...] = rows
    return net.forward()["prob"].copy()


def test_backbone_and_head_caffe_onnx_runtime_and_opencv_say_of_pictures_what_the_run_says_of_features(run, tmp_path):
    done = program("export", run.path, tmp_path / "m")
    assert done.returncode == 0, done.stderr
    assert "Caffe, from picture to class: top-1 of 14 of 14 pictures of cartoon as by the run" in done.stdout
    assert ".prototxt, which Caffe does: Can't create layer" in done.stdout
    done = program("export_onnx", *(tmp_path / f"m.{end}" for end in ("prototxt", "caffemodel", "onnx")))
    assert done.returncode == 0 and "data N×3×224×224 → prob N×7" in done.stdout, done.stderr
    assert names(tmp_path) == ["m.caffemodel", "m.json", "m.onnx", "m.prototxt"]
    assert not {layer.type for layer in read_model(tmp_path / "m.prototxt", tmp_path / "m.caffemodel").net.layer} - {
        *("Input", "Convolution", "Clip", "Eltwise", "Pooling", "Scale", "ReLU", "InnerProduct", "Softmax")
    }

    expected = by_the_run(run)
    assert expected.max(axis=1).std() > 1e-3, "the pictures differ"
    pictures = run.data_folder / "pacs" / "cartoon"
    rows = replace(LITE0.pixels, scale=1.0).inputs(read_images(pictures)[0])
    stock = caffe.Net(str(tmp_path / "m.prototxt"), caffe.TEST, weights=str(tmp_path / "m.caffemodel"))
    stock.blobs["data"].reshape(*rows.shape)
    stock.blobs["data"].data[...] = rows
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    opencv = cv2.dnn.readNetFromONNX(str(tmp_path / "m.onnx"))
    opencv.setInput(rows)
    for found in (stock.forward()["prob"], session.run(["prob"], {"data": rows})[0], opencv.forward()):
        np.testing.assert_allclose(found, expected, atol=1e-4)
        np.testing.assert_array_equal(found.argmax(axis=1), expected.argmax(axis=1))


def test_backbone_and_head_a_head_without_mda(lite0_features, tmp_path):
    done = program("export", trained(tmp_path / "run", lite0_features, "source_only").path, tmp_path / "m")
    assert done.returncode == 0 and "top-1 of 14 of 14 pictures of cartoon" in done.stdout, done.stderr


def test_backbone_and_head_another_head_than_the_one_of_the_features_is_not_written(run, tmp_path, monkeypatch):
    """Features of other pictures, weights that were changed: whatever makes the two sides differ."""
    backbone = backbone_and_head.backbone(LITE0, in_package(LITE0.weights[0].file))
    shifted = {**backbone.blobs, "conv2": [backbone.blobs["conv2"][0], backbone.blobs["conv2"][1] + np.float32(1)]}
    monkeypatch.setattr(backbone_and_head, "backbone", lambda *_: replace(backbone, blobs=shifted))
    done = program("export", run.path, tmp_path / "m")
    assert done.returncode == 1 and "this net is not written" in done.stderr and "from picture to class" in done.stderr
    assert names(tmp_path) == []


def test_check_on_pictures_without_the_pictures_it_says_that_none_were_compared(run, tmp_path, capsys):
    backbone_and_head.check_on_pictures(
        replace(run, data_folder=tmp_path), run.final_snapshot().model, lambda rows: rows, "Caffe"
    )
    assert "are not there: Caffe was not compared on pictures" in capsys.readouterr().out


def test_picture_net_what_no_whole_net_is_made_of(run, tmp_path):
    assert backbone_and_head.is_head(run)
    for name in ("pacs", "office31_fc7"):
        assert not backbone_and_head.is_head(replace(run, experiment=make_experiment(name, "dial")))
    head = read_model(run.net("deploy"), run.latest_snapshot().model)
    other = replace(DATASETS["pacs_lite0"], stored_shape=(1000 + 80, 1, 1))
    with pytest.raises(ProgramError, match="takes 1000 features, expected the 1280 of lite0"):
        backbone_and_head.picture_net(replace(run, experiment=make_experiment(other, "dial")), head)
    settings = {"targets": TARGETS, "branch_norm": "logits", "batch_size": 32}
    for branch_input in ("early", "final"):
        experiment = make_experiment("pacs_lite0", "mda", branch_input=branch_input, **settings)
        two = write_run(experiment, tmp_path / branch_input, data=run.data_folder)
        head = Model(two.read_net("deploy"), {})
        if branch_input == "final":
            assert backbone_and_head.picture_net(two, head).net.layer[-1].top == ["prob"]
            continue
        with pytest.raises(ProgramError, match="reads statistics of early blocks to tell target domains apart"):
            backbone_and_head.picture_net(two, head)
