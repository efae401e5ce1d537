"""The program that writes ONNX: whole files, checked, or nothing."""

import re
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from latent_domains.convert.onnx.layer import Layer
from latent_domains.convert.onnx.layers import LAYERS
from latent_domains.models.model import Model, forward, load, write_model
from tests.latent_domains.convert.onnx.nets import random_model, with_input
from tests.latent_domains.nets.experiments import nets_of
from tests.latent_domains.nets.graphs import parse
from tests.programs import Done, names, program


@pytest.fixture(scope="module")
def model() -> Model:
    return random_model(parse(nets_of("digits", "source_only")[1]["deploy"]))


@pytest.fixture
def files(model: Model, tmp_path: Path) -> tuple[Path, Path]:
    return write_model(model, tmp_path / "in" / "mnist", about="Input: B, G, R.\nMean: 104.", force=False)


def export(files: tuple[Path, Path], out: Path, *options: object) -> Done:
    return program("export_onnx", *files, out, *options)


def assert_refused(done: Done, message: str, out: Path) -> None:
    """One line about it, and nothing of the output."""
    assert done.returncode == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not out.parent.is_dir() or names(out.parent) in ([], ["in"])


@pytest.mark.program
def test_export_onnx_the_file_gives_what_caffe_gives(model: Model, files: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "deep" / "net.onnx"
    done = export(files, out)
    assert done.returncode == 0, done.stderr
    assert "data N×3×28×28 → prob N×10" in done.stdout and "agrees with Caffe: of 18 blobs" in done.stdout
    assert names(out.parent) == ["net.onnx"]
    x = np.random.default_rng(5).normal(size=(5, 3, 28, 28)).astype(np.float32)
    found = onnxruntime.InferenceSession(str(out)).run(["prob"], {"data": x})[0]
    np.testing.assert_allclose(found, forward(load(model), x)["prob"], rtol=1e-4, atol=1e-6)
    made = onnx.load(out)
    assert made.producer_name == "caffe-latent-domains" and made.doc_string == "Input: B, G, R.\nMean: 104."
    about = {entry.key: entry.value for entry in made.metadata_props}
    assert about["net"] == "mnist.prototxt" and about["weights"] == "mnist.caffemodel"
    assert str(tmp_path) not in str(made.metadata_props)


@pytest.mark.program
def test_export_onnx_a_net_that_takes_small_numbers_is_compared_on_such(tmp_path: Path) -> None:
    conv = 'type: "Convolution" bottom: "data" top: "conv" convolution_param { num_output: 32 kernel_size: 3 }'
    more = 'type: "Convolution" bottom: "tanh" top: "more" convolution_param { num_output: 4 kernel_size: 1 }'
    text = f"""layer {{ name: "conv" {conv} }}
               layer {{ name: "tanh" type: "TanH" bottom: "conv" top: "tanh" }}
               layer {{ name: "more" {more} }}"""
    model = random_model(parse(with_input(text, 3, 64, 64)))
    model.blobs["conv"][0][...] *= 300
    files = write_model(model, tmp_path / "in" / "net", about="", force=False)
    out = tmp_path / "net.onnx"
    said = "expected at most 0.0001: compared on pixels from 0 to 255 less 128, if the net takes others give --mean and"
    assert_refused(export(files, out), said, out)
    assert_refused(export(files, out, "--mean", 1, 2), "--mean: got 2 values for an input of 3 channels", out)
    done = export(files, out, "--mean", 104, 117, 123, "--scale", 1e-4)
    assert done.returncode == 0, done.stderr


@pytest.mark.program
def test_export_onnx_a_net_that_differs_is_not_written(
    files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def leaky(layer: Layer) -> None:
        layer.last("LeakyRelu", [layer.bottoms[0].name], alpha=0.01)

    monkeypatch.setitem(LAYERS, "ReLU", leaky)
    out = tmp_path / "net.onnx"
    done = export(files, out)
    assert_refused(done, "expected at most 0.0001: compared on pixels from 0 to 255 less 128, if", out)
    assert re.search(r"^  pool1 +\d", done.stderr, re.MULTILINE)  # where relu1 works in place
    unchecked = export(files, out, "--no-verify")
    assert unchecked.returncode == 0 and out.is_file() and "agrees" not in unchecked.stdout


@pytest.mark.program
def test_export_onnx_a_difference_in_the_file_alone_shows(
    files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is compared is the file, not only what was in memory."""
    write_bytes = Path.write_bytes

    def damaged(path: Path, data: bytes) -> int:
        made = onnx.load_from_string(data)
        for node in made.graph.node:
            if node.op_type == "Softmax":
                node.op_type = "LogSoftmax"
        return write_bytes(path, made.SerializeToString())

    monkeypatch.setattr(Path, "write_bytes", damaged)
    out = tmp_path / "net.onnx"
    assert_refused(export(files, out), "in prob (of the file)", out)
