"""EfficientNet-Lite0 with ImageNet's weights: PyTorch is the judge of Caffe, ONNX Runtime and OpenCV."""

import os
from pathlib import Path

import caffe
import cv2
import numpy as np
import onnx
import pytest
from onnx import ModelProto

pytest.importorskip("torch", reason="PyTorch is not installed (tools/setup.sh torch)")

import torch

from latent_domains.convert.fold.fold import fold
from latent_domains.convert.onnx.export import blob_names, onnx_model
from latent_domains.convert.torch.backbone import backbone, backbone_onnx, folded_model
from latent_domains.convert.torch.conversion import caffe_model
from latent_domains.convert.torch.read import Checkpoint, read_checkpoint
from latent_domains.convert.torch.reference import torch_net
from latent_domains.data.preprocessing import Transform
from latent_domains.data.published_file import in_package
from latent_domains.experiment.experiment import make_experiment
from latent_domains.models.model import Array, Model, forward, load, open_net, weights_bytes
from latent_domains.models.onnx_file import Runtime, with_outputs
from latent_domains.nets.family import deploy_net
from latent_domains.networks.inverted_residuals import POOLED
from latent_domains.networks.lite0 import LITE0
from tests.latent_domains.convert.torch.lite0_net import Lite0

pytestmark = pytest.mark.torch

SAMPLE = Path(os.environ.get("DATA_MIRROR", "missing")) / "pacs_sample" / "photo"

NOISE = 2

FILE, EARLY = in_package(LITE0.weights[0].file), LITE0.backbone.early

IMAGENET = {"dog": range(151, 269), "elephant": (101, 385, 386), "guitar": (402, 546), "horse": (339,)}
"""ImageNet's classes for PACS's; it has no giraffe, no house and no person."""


@pytest.fixture(scope="module")
def net() -> Lite0:
    net = Lite0()
    net.load_state_dict(torch.load(FILE, weights_only=True))
    return net.eval()


@pytest.fixture(scope="module")
def model() -> Model:
    return folded_model(read_checkpoint(FILE, head=True), LITE0.torch.standardisation)


@pytest.fixture(scope="module")
def made(model: Model) -> ModelProto:
    return onnx_model(model, load(model), producer="tests", about="", metadata={})


@pytest.fixture(scope="module")
def pixels() -> Array:
    """Random pixels and pictures, N×3×224×224, B, G, R: two of PACS's sample a class, or drawn ones without it."""
    rng = np.random.default_rng(0)
    files = [file for folder in sorted(SAMPLE.glob("*")) for file in sorted(folder.glob("*.jpg"))[:2]]
    pictures = [cv2.imread(str(file)) for file in files]
    for i in range(0 if files else 3):
        picture = cv2.resize(rng.integers(0, 256, (8, 8, 3)).astype(np.uint8), (227, 227))
        pictures.append(cv2.circle(picture, (110, 110), 20 + 20 * i, (255, 60 * i, 30), -1))
    sized = [cv2.resize(picture, LITE0.pixels.stored_shape[:0:-1]).transpose(2, 0, 1) for picture in pictures]
    noise = rng.integers(0, 256, (NOISE, *LITE0.pixels.stored_shape)).astype(np.uint8)
    return LITE0.pixels.inputs([*noise, *sized]) * 128 + 127


@pytest.fixture(scope="module")
def expected(net: Lite0, pixels: Array) -> dict[str, Array]:
    """As TensorFlow and PyTorch want it: R, G, B, (p - 127) / 128."""
    with torch.no_grad():
        values = net.values(torch.from_numpy(pixels)[:, [2, 1, 0]].sub(127).div(128))
    return {name: value.numpy() for name, value in values.items()}


def assert_close(found: dict[str, Array], expected: dict[str, Array]) -> None:
    """Every value of all maps, those at the border among them, within 1e-4 of the largest."""
    assert {name: found[name].shape for name in expected} == {name: values.shape for name, values in expected.items()}
    for name, values in expected.items():
        assert np.abs(found[name] - values).max() <= 1e-4 * np.abs(values).max(), name


def test_read_checkpoint_tensors_are_those_of_pytorchs_net(net: Lite0) -> None:
    state = {name: tuple(value.shape) for name, value in net.state_dict().items() if "num_batches" not in name}
    assert LITE0.torch.shapes() | {"_fc.weight": (1000, 1280), "_fc.bias": (1000,)} == state
    found = read_checkpoint(FILE, head=True)
    assert found.classes == 1000 and set(found.values) == set(state) and found.notes == ()


def test_folded_model_caffe_gives_what_pytorch_gives(model: Model, pixels: Array, expected: dict[str, Array]) -> None:
    assert {layer.type for layer in model.net.layer} == {
        *("Input", "Convolution", "Clip", "Eltwise", "Pooling", "InnerProduct", "Softmax")
    }
    found = forward(load(model), pixels - 127)
    assert_close(found, expected)
    assert len(expected) == 49 + 9 + 2 and {*EARLY, POOLED} <= set(expected)
    best = expected["fc1000"].argmax(axis=1)
    np.testing.assert_array_equal(found["prob"].argmax(axis=1), best)
    assert len(set(best)) > 1


def test_torch_net_the_checkpoints_own_net_is_pytorchs(pixels: Array, expected: dict[str, Array]) -> None:
    """What the program compares with, without PyTorch."""
    found = torch_net(read_checkpoint(FILE, head=True), LITE0.torch.standardisation).run(pixels)
    found = {name.removesuffix("_scale").removesuffix("_bn"): values for name, values in found.items()}
    assert set(found) < set(expected) and {"conv1", *EARLY, POOLED, "fc1000"} <= set(found)
    assert_close(found, {name: expected[name] for name in found})


def test_backbone_onnx_runtime_gives_what_pytorch_gives(
    made: ModelProto, pixels: Array, expected: dict[str, Array]
) -> None:
    names = blob_names(made, expected)
    found = Runtime(with_outputs(made, names).SerializeToString()).forward({"data": pixels - 127})
    assert set(names) == set(expected)
    assert_close(found, expected)


def test_backbone_opencv_gives_what_pytorch_gives(made: ModelProto, pixels: Array, expected: dict[str, Array]) -> None:
    loaded = cv2.dnn.readNetFromONNX(np.frombuffer(made.SerializeToString(), np.uint8))
    loaded.setInput(pixels - 127)
    found, scores = loaded.forward(), expected["fc1000"].astype(np.float64)
    wanted = np.exp(scores - scores.max(axis=1, keepdims=True))
    np.testing.assert_allclose(found, wanted / wanted.sum(axis=1, keepdims=True), atol=1e-4)
    np.testing.assert_array_equal(found.argmax(axis=1), scores.argmax(axis=1))


def test_backbone_the_backbone_ends_in_the_features(pixels: Array, expected: dict[str, Array]) -> None:
    few, found = pixels[:2], backbone_onnx(LITE0, FILE)
    onnx.checker.check_model(found, full_check=True)
    assert [output.name for output in found.graph.output] == [POOLED]
    convolutions = {name for name in expected if name.startswith("conv") or "_" in name}
    assert set(backbone(LITE0, FILE).blobs) == convolutions
    rows = Runtime(with_outputs(found, [POOLED, *EARLY]).SerializeToString()).forward({"data": few - 127})
    assert_close(rows, {name: expected[name][:2] for name in rows})
    assert [rows[name].shape[1] for name in (POOLED, *EARLY)] == [1280, 16, 24]


def begun(net: Checkpoint, num_domains: int = 0) -> Model:
    """What fine-tuning begins with."""
    return caffe_model(net, LITE0.torch.standardisation, Transform((127,) * 3, 1 / 128), num_domains)


def test_read_checkpoint_nets_for_fine_tuning_give_what_pytorch_gives(
    pixels: Array, expected: dict[str, Array]
) -> None:
    """Before their BN is folded: with BN alone, and with mDA, of which every domain begins with these statistics."""
    net, few = read_checkpoint(FILE, head=False), pixels[:3]
    wanted = {name: values[:3] for name, values in expected.items() if name != "fc1000"}
    for model in (begun(net), begun(net, 3)):
        found = forward(load(model), (few - 127) / 128)
        ends = ("_scale", "_mda", "_bn", "")  # a Scale before ReLU6 stands in place
        last = {name: next(name + end for end in ends if name + end in found) for name in wanted}
        assert_close({name: found[last[name]] for name in wanted}, wanted)


def test_folded_model_stock_caffe_pads_by_zeros_in_kernels(
    model: Model, pixels: Array, expected: dict[str, Array]
) -> None:
    stock = fold(model).model
    sides = {layer.name: list(layer.convolution_param.kernel_size) for layer in stock.net.layer}
    strided = ("conv1", "block2a_depthwise", "block3a_depthwise", "block4a_depthwise", "block6a_depthwise")
    assert [sides[name] for name in strided] == [[4], [4], [6], [4], [6]]
    assert not any(layer.convolution_param.pad_end for layer in stock.net.layer)
    assert all(layer.convolution_param.pad_end for layer in model.net.layer if layer.name in strided)
    assert_close(forward(load(stock), pixels[:2] - 127), {name: values[:2] for name, values in expected.items()})


@pytest.mark.parametrize("method", ["source_only", "mda"])
def test_backbone_what_is_fine_tuned_begins_with_the_features(method: str, pixels: Array, tmp_path: Path) -> None:
    """A frozen-statistics forward of an experiment's net, on squares of 64, and the net that makes features."""
    experiment = make_experiment("pacs", method, network="lite0", image_size=64)
    net, few = read_checkpoint(FILE, head=False), pixels[:3, :, 80:144, 80:144] - 127
    begin = begun(net, experiment.num_domains if method == "mda" else 0)
    (tmp_path / "begin.caffemodel").write_bytes(weights_bytes(begin))
    tuned = open_net(deploy_net(experiment).to_proto(), caffe.TEST)
    tuned.copy_from(str(tmp_path / "begin.caffemodel"))
    expected = forward(load(backbone(LITE0, FILE)), few)
    found = forward(tuned, few * np.float32(experiment.data.scale))
    assert tuned.blobs["data"].data.shape == (3, 3, 64, 64) and tuned.blobs["conv2"].data.shape[2:] == (2, 2)
    assert_close(found, {POOLED: expected[POOLED]})


@pytest.mark.skipif(not SAMPLE.is_dir(), reason="needs pacs_sample in DATA_MIRROR")
def test_folded_model_photographs_are_of_their_class(model: Model, pixels: Array) -> None:
    """Which they are by the net itself, so that channels, mean and scale are the ones that it was trained with."""
    best = forward(load(model), pixels[NOISE:] - 127)["prob"].argmax(axis=1)
    names = [folder.name for folder in sorted(SAMPLE.glob("*")) for _ in range(2)]
    right = [label in IMAGENET[name] for name, label in zip(names, best, strict=True) if name in IMAGENET]
    assert sum(right) >= len(right) - 2 and len(right) == 8, list(zip(names, best, strict=True))
