"""EfficientNet-Lite0 from its package to Caffe and ONNX, by the programs."""

import re
from pathlib import Path

import caffe
import numpy as np
import onnx
import pytest

from latent_domains.convert.torch import lite0
from latent_domains.data.weights_files import in_package
from latent_domains.experiment.networks import LITE0
from latent_domains.models import inputs
from latent_domains.models.compare import TOLERANCE
from latent_domains.models.model import forward
from latent_domains.nets.lite0 import POOLED, PREPROCESSING
from tests.programs import names, program

ABOUT = """\
# Input: B, G, R from 0 to 255 less 127, 127, 127.
# EfficientNet-Lite0 of efficientnet-lite0-57934424.pth, by python -m tools.convert_lite0.
"""


@pytest.fixture(autouse=True)
def few_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "NOISE", 1)


@pytest.mark.program
def test_from_the_package_to_onnx(tmp_path: Path) -> None:
    checkpoint, out = in_package(LITE0), tmp_path / "lite0"
    done = program("convert_lite0", checkpoint, out)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{checkpoint}: EfficientNet-Lite0, 1000 classes\n")
    found = re.search(r"on 1 random inputs: of 19 blobs from conv1 to fc1000 \w+ differs most, by (\S+) ", done.stdout)
    assert 0 < float(found[1]) <= TOLERANCE and "the best class is the same for 1 of 1" in done.stdout
    assert names(tmp_path) == ["lite0.caffemodel", "lite0.prototxt"]
    assert out.with_suffix(".prototxt").read_text().startswith(ABOUT)

    done = program("export_onnx", f"{out}.prototxt", f"{out}.caffemodel", f"{out}.onnx")
    assert done.returncode == 0, done.stderr
    assert "data N×3×224×224 → prob N×1000" in done.stdout and "agrees with Caffe: of 61 blobs" in done.stdout
    assert onnx.load(f"{out}.onnx").doc_string.startswith("Input: B, G, R from 0 to 255 less 127, 127, 127.")


def test_without_head(tmp_path: Path) -> None:
    options = ["--no-head", "--no-verify"]
    done = program("convert_lite0", in_package(LITE0), tmp_path / "lite0", *options)
    assert done.returncode == 0, done.stderr
    assert "EfficientNet-Lite0, no head\n" in done.stdout and "not verified" in done.stdout
    net = caffe.Net(str(tmp_path / "lite0.prototxt"), caffe.TEST, weights=str(tmp_path / "lite0.caffemodel"))
    found = forward(net, np.zeros((2, *PREPROCESSING.shape), np.float32))
    assert net.outputs == [POOLED] and found[POOLED].shape == (2, 1280, 1, 1) and found[POOLED].any()
    done = program("convert_lite0", in_package(LITE0), tmp_path / "lite0", *options)
    assert done.returncode == 1 and "lite0.prototxt exists already" in done.stderr


@pytest.mark.parametrize(
    ("piece", "wrong"),
    [
        ("for_caffes_pixels", lambda weights, _: weights / 128),  # R and B exchanged
        ("EPS", 1e-5),
    ],
)
def test_a_wrong_conversion_is_not_written(
    piece: str, wrong: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lite0, piece, wrong)
    done = program("convert_lite0", in_package(LITE0), tmp_path / "out")
    assert done.returncode == 1
    assert re.search(r"/out\.caffemodel: the two sides differ by \S+ of .*; nothing is written\n", done.stderr)
    assert names(tmp_path) == []


def test_zeros_on_the_other_side_of_the_kernels_are_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes of padding as PyTorch does where TensorFlow's is meant."""
    pad = np.pad
    monkeypatch.setattr(lite0.np, "pad", lambda weights, _: pad(weights, ((0, 0), (0, 0), (0, 1), (0, 1))))
    done = program("convert_lite0", in_package(LITE0), tmp_path / "out")
    assert done.returncode == 1 and "nothing is written" in done.stderr and names(tmp_path) == []


def test_what_is_no_lite0(tmp_path: Path) -> None:
    whole = in_package(LITE0).read_bytes()
    (tmp_path / "cut.pth").write_bytes(whole[: len(whole) // 2])
    done = program("convert_lite0", tmp_path / "cut.pth", tmp_path / "out")
    assert done.returncode == 1 and re.fullmatch(r"error: .*/cut\.pth: truncated: 9413016 bytes, .*\n", done.stderr)
    done = program("convert_lite0", tmp_path / "none.pth", tmp_path / "out")
    assert done.returncode == 1 and done.stderr == f"error: {tmp_path}/none.pth: no such file, expected a checkpoint\n"
    done = program("convert_resnet", in_package(LITE0), tmp_path / "out")
    assert done.returncode == 1 and "it looks like EfficientNet (for EfficientNet-Lite0: python -m " in done.stderr
    assert names(tmp_path) == ["cut.pth"]
