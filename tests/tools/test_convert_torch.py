"""ResNets of PyTorch, saved in every format, and EfficientNet-Lite0, as Caffe computes them after the conversion."""

import os
import re
import warnings
from pathlib import Path

import caffe
import cv2
import numpy as np
import onnx
import pytest
from caffe.proto.caffe_pb2 import NetParameter

pytest.importorskip("torch", reason="PyTorch is not installed (tools/setup.sh torch)")

import torch

from latent_domains.common.program import ROOT
from latent_domains.convert.torch import conversion
from latent_domains.data.published_file import in_package
from latent_domains.experiment.datasets import of_network
from latent_domains.experiment.experiment import make_experiment
from latent_domains.models import compare
from latent_domains.models.compare import TOLERANCE
from latent_domains.models.model import forward
from latent_domains.models.weights import check_weights
from latent_domains.nets.training_files import make_nets_and_solver
from latent_domains.networks.lite0 import LITE0
from latent_domains.networks.resnet import DEPTHS
from tests.latent_domains.convert.torch.lua import Builder, written
from tests.latent_domains.convert.torch.nets import (
    RESNET18,
    RESNET50,
    Bottleneck,
    ResNet,
    tell_apart,
    trained,
)
from tests.programs import names, program

pytestmark = pytest.mark.torch

BN_BLOBS = conversion.bn_blobs
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
MDA_MEAN = (104, 117, 123)
NOISE, PICTURES = 2, 3


@pytest.fixture(scope="module")
def net(pixels: np.ndarray) -> ResNet:
    """A net that finds another class in each of the pictures."""
    net = trained(RESNET18, 1000)
    tell_apart(net, preprocessed(pixels[NOISE:]))
    return net


@pytest.fixture(scope="module")
def checkpoint(net: ResNet, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_zip(net, tmp_path_factory.mktemp("checkpoint") / "net.pth")


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of pictures: some of PACS, or drawn ones where it is not at hand."""
    folder = tmp_path_factory.mktemp("images")
    sample = sorted((Path(os.environ.get("DATA_MIRROR", "missing")) / "pacs_sample").glob("*/*/*.jpg"))
    rng = np.random.default_rng(0)
    for i in range(PICTURES):
        if sample:
            (folder / f"{i}.jpg").symlink_to(sample[i * len(sample) // PICTURES])
        else:
            picture = rng.integers(0, 256, (227, 227, 3)).astype(np.uint8)
            cv2.circle(picture, (110, 110), 20 + 20 * i, (255, 60 * i, 30), -1)
            cv2.imwrite(str(folder / f"{i}.jpg"), picture)
    return folder


@pytest.fixture(scope="module")
def pixels(images: Path) -> np.ndarray:
    """Random pixels and pictures (N×3×224×224; B, G, R): those that ``verified`` is compared on."""
    return np.concatenate([compare.noise((3, 224, 224), 0)[:NOISE], compare.images(images, (3, 224, 224))])


@pytest.fixture(scope="module")
def expected(net: ResNet, pixels: np.ndarray) -> dict[str, np.ndarray]:
    return judge(net, pixels)


def judge(net: ResNet, pixels: np.ndarray, mean=MEAN, std=STD) -> dict[str, np.ndarray]:
    """What PyTorch makes of pixels."""
    with torch.no_grad():
        return {name: value.numpy() for name, value in net.values(preprocessed(pixels, mean, std)).items()}


def preprocessed(pixels: np.ndarray, mean=MEAN, std=STD) -> torch.Tensor:
    """As it is usual with PyTorch."""
    x = torch.from_numpy(pixels)[:, [2, 1, 0]].div(255)
    return x.sub(torch.tensor(mean).view(3, 1, 1)).div(torch.tensor(std).view(3, 1, 1))


def converted(prefix: Path, pixels: np.ndarray, mean=MEAN) -> dict[str, np.ndarray]:
    """What Caffe makes of them, less 255 times the mean."""
    net = caffe.Net(f"{prefix}.prototxt", caffe.TEST, weights=f"{prefix}.caffemodel")
    return forward(net, pixels - 255 * np.array(mean[::-1], np.float32).reshape(3, 1, 1))


def assert_close(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    """Every value of ``expected`` within 1e-4 of the largest."""
    for name, values in expected.items():
        assert np.abs(found[name] - values).max() <= 1e-4 * np.abs(values).max(), name


def save_zip(net: ResNet, path: Path) -> Path:
    torch.save(net.state_dict(), path)
    return path


def save_training(net: ResNet, path: Path) -> Path:
    """A training checkpoint of a model on several GPUs."""
    state = {f"module.{name}": value for name, value in net.state_dict().items()}
    optimizer = {"state": {0: {"momentum_buffer": torch.zeros(3)}}, "param_groups": [{"lr": 0.1, "params": [0]}]}
    torch.save({"epoch": 90, "arch": "resnet18", "state_dict": state, "optimizer": optimizer}, path)
    return path


def save_t7(net: ResNet, path: Path) -> Path:
    path.write_bytes(written(Builder(namespace="cudnn", kind="Cuda", old=True).net(net)))
    return path


def save_onnx(net: ResNet, path: Path) -> Path:
    """As the message about BN that is folded says."""
    as_it_is = {"training": torch.onnx.TrainingMode.PRESERVE, "do_constant_folding": False}
    with warnings.catch_warnings(action="ignore"):  # of an exporter that is no longer the default
        torch.onnx.export(net.eval(), (torch.rand(1, 3, 224, 224),), str(path), dynamo=False, **as_it_is)
    return path


FORMATS = {"training": save_training, "t7 with old BN": save_t7, "onnx": save_onnx}


@pytest.mark.parametrize("name", FORMATS)
def test_convert_torch_both_torches_files_give_what_pytorch_gives(name, net, pixels, expected, tmp_path):
    """The file's name says nothing: only its contents do. (The other formats' tensors: test_read, test_pth.)"""
    file = FORMATS[name](net, tmp_path / "checkpoint")
    done = program("convert_torch", file, tmp_path / "out", "--no-verify", "--no-mda")
    assert done.returncode == 0, done.stderr
    assert f"{file}: ResNet18, 1000 classes\n" in done.stdout
    assert ("note: the net is below the prefix state_dict.module.\n" in done.stdout) == (name == "training")
    assert names(tmp_path) == ["checkpoint", "out.caffemodel", "out.prototxt"]
    found = converted(tmp_path / "out", pixels)
    assert_close(found, expected)
    blocks = {f"res{stage}{block}" for stage in "2345" for block in "ab"}
    assert set(expected) == {"scale_conv1", *blocks, "pool5", "fc1000"}
    best = expected["fc1000"].argmax(axis=1)
    assert len(set(best[NOISE:])) == PICTURES
    np.testing.assert_array_equal(found["prob"].argmax(axis=1), best)


def test_convert_torch_a_resnet_of_bottlenecks(pixels, tmp_path, monkeypatch):
    monkeypatch.setattr(compare, "NOISE", 1)
    pixels = pixels[1:4]
    net = trained(RESNET50, 10, seed=3, kind=Bottleneck)
    tell_apart(net, preprocessed(pixels))
    file = save_zip(net, tmp_path / "net.pth")
    done = program("convert_torch", file, tmp_path / "out", "--num-domains", 2)
    assert done.returncode == 0, done.stderr
    assert f"{file}: ResNet50, 10 classes\n" in done.stdout
    assert names(tmp_path) == ["net.pth", "out.caffemodel", "out.prototxt", "out_mda2.caffemodel"]
    expected = judge(net, pixels)
    assert {"res2c", "res3d", "res4f", "res5c", "fc10"} < set(expected)
    assert len(expected) == 3 + sum(DEPTHS[50].blocks)
    found = converted(tmp_path / "out", pixels)
    assert_close(found, expected)
    best = expected["fc10"].argmax(axis=1)
    assert len(set(best)) > 1
    np.testing.assert_array_equal(found["prob"].argmax(axis=1), best)
    nets, _ = make_nets_and_solver(make_experiment(of_network("resnet50"), "dial"), "", str, "")
    (tmp_path / "deploy.prototxt").write_text(nets["deploy"])
    fit = check_weights(tmp_path / "out_mda2.caffemodel", [caffe.Net(str(tmp_path / "deploy.prototxt"), caffe.TEST)])
    assert fit.missing == ("classifier",) and fit.unused == ()


@pytest.fixture(scope="module")
def verified(checkpoint: Path, images: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """What the program writes and says by default, with images."""
    folder = tmp_path_factory.mktemp("verified")
    options = ["--images", images, "--num-domains", 4, "--num-domains", 2, "--num-domains", 4]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compare, "NOISE", NOISE)
        done = program("convert_torch", checkpoint, folder / "net", *options)
    assert done.returncode == 0, done.stderr
    assert names(folder) == ["net.caffemodel", "net.prototxt", "net_mda2.caffemodel", "net_mda4.caffemodel"]
    return folder / "net", done.stdout


def test_convert_torch_the_comparison_is_reported(verified):
    said = verified[1]
    found = re.search(
        r"on 2 random inputs and 3 images: of 11 blobs from scale_conv1 to fc1000 \w+ differs most, by (\S+) of", said
    )
    assert 0 < float(found[1]) <= TOLERANCE
    assert "the best class is the same for 5 of 5" in said
    for domains in (2, 4):
        found = re.search(rf"net_mda{domains}\.caffemodel, .*: (\w+) differs most, by (\S+)\n", said)
        assert 0 < float(found[2]) <= TOLERANCE


def test_convert_torch_the_prototxt_says_which_mean_it_wants(verified):
    first, second = Path(f"{verified[0]}.prototxt").read_text().splitlines()[:2]
    assert first.startswith("# Input: B, G, R from 0 to 255 less the mean 103.53, 116.28, 123.675.")
    assert second == "# ResNet18 of net.pth, by python -m tools.convert_torch."


def blobs(weights: Path) -> dict[str, list[np.ndarray]]:
    net = NetParameter.FromString(weights.read_bytes())
    return {
        layer.name: [np.array(blob.data, np.float32).reshape(blob.shape.dim) for blob in layer.blobs]
        for layer in net.layer
    }


@pytest.mark.parametrize("domains", [2, 4])
def test_convert_torch_every_domain_begins_with_the_checkpoints_statistics(domains, net, verified):
    found = blobs(Path(f"{verified[0]}_mda{domains}.caffemodel"))
    assert not [name for name in found if name.startswith(("fc", "classifier", "domain"))]
    for path, bn in (("2a_branch2a", net.layer1[0].bn1), ("4a_branch1", net.layer3[0].downsample[1])):
        means, variances, divisors = found[f"mda{path}"]
        np.testing.assert_array_equal(means, np.tile(bn.running_mean.numpy(), (domains, 1)))
        np.testing.assert_array_equal(variances, np.tile(bn.running_var.numpy(), (domains, 1)))
        np.testing.assert_array_equal(divisors, np.ones(domains))
        scale, shift = found[f"scale{path}"]
        np.testing.assert_array_equal(scale, bn.weight.detach().numpy())
        np.testing.assert_array_equal(shift, bn.bias.detach().numpy())


@pytest.fixture(scope="module")
def mda_found(verified: tuple[Path, str], pixels: np.ndarray) -> dict[str, np.ndarray]:
    """What the committed mDA net makes of the pixels, with the weights that load into it by name."""
    net, weights = caffe.Net(str(ROOT / "prototxt/resnet18/pacs_deploy.prototxt"), caffe.TEST), verified[0]
    fit = check_weights(Path(f"{weights}_mda4.caffemodel"), [net])
    assert fit.missing == ("classifier",) and fit.unused == ()
    net.copy_from(f"{weights}_mda4.caffemodel")
    return forward(net, pixels - np.array(MDA_MEAN, np.float32).reshape(3, 1, 1))


def test_convert_torch_mda_net_gives_what_pytorch_gives(net, mda_found, pixels):
    """The judge's images go on in Caffe's mean beyond their border, as what Caffe pads with is that."""
    framed = np.empty((len(pixels), 3, 230, 230), np.float32)
    framed[:] = np.array(MDA_MEAN).reshape(3, 1, 1)
    framed[:, :, 3:-3, 3:-3] = pixels
    net.conv1.padding = (0, 0)
    try:
        expected = judge(net, framed)
    finally:
        net.conv1.padding = (3, 3)
    del expected["fc1000"]
    assert_close(mda_found, expected)


def test_convert_torch_other_preprocessing(net, checkpoint, pixels, tmp_path, monkeypatch):
    monkeypatch.setattr(compare, "NOISE", 1)
    mean, std = (0.1, 0.5, 0.9), (0.5, 0.25, 1.0)
    done = program("convert_torch", checkpoint, tmp_path / "out", "--mean", *mean, "--std", *std, "--num-domains", 3)
    assert done.returncode == 0, done.stderr
    assert "less the mean 229.5, 127.5, 25.5." in (tmp_path / "out.prototxt").read_text()
    few = pixels[1:3]
    assert_close(converted(tmp_path / "out", few, mean), judge(net, few, mean, std))


def test_convert_torch_without_head(net, pixels, expected, tmp_path):
    file = tmp_path / "headless.pth"
    torch.save({name: value for name, value in net.state_dict().items() if not name.startswith("fc.")}, file)
    done = program("convert_torch", file, tmp_path / "out", "--no-mda", "--no-verify")
    assert done.returncode == 1
    assert "lacking fc.weight, fc.bias; --no-head leaves the classifier out" in done.stderr
    done = program("convert_torch", file, tmp_path / "out", "--no-head", "--no-mda")
    assert done.returncode == 0, done.stderr
    assert f"{file}: ResNet18, no head" in done.stdout and "best class" not in done.stdout
    found = converted(tmp_path / "out", pixels[:1])
    assert list(found)[-1] == "pool5"
    assert_close(found, {"pool5": expected["pool5"][:1]})


def test_convert_torch_conv1_trains_at_pytorchs_pace(net, verified):
    """Before BN, a step's relative change goes with 1/‖W‖²: with 1/255 in W it was some 3,300 times PyTorch's."""
    stem, _ = verified
    ours, theirs = blobs(stem.with_suffix(".caffemodel"))["conv1"][0], net.conv1.weight.detach().numpy()
    assert np.linalg.norm(ours) == pytest.approx(np.linalg.norm(theirs), rel=0.02)  # s is 0.224 to 0.229


@pytest.mark.parametrize(
    ("piece", "wrong", "file"),
    [
        ("for_caffes_pixels", lambda weights, _: weights / 255 / np.float32(0.226), "out"),  # R and B exchanged
        ("bn_blobs", lambda mean, variance, *more: BN_BLOBS(mean, variance + np.float32(1e-2), *more), "out"),
        ("surplus", lambda *_: np.zeros(64), "out_mda4"),
    ],
)
def test_convert_torch_a_wrong_conversion_is_not_written(piece, wrong, file, checkpoint, tmp_path, monkeypatch):
    monkeypatch.setattr(conversion, piece, wrong)
    monkeypatch.setattr(compare, "NOISE", 1)
    done = program("convert_torch", checkpoint, tmp_path / "out")
    assert done.returncode == 1
    found = re.search(rf"/{file}\.caffemodel: the two sides differ by (\S+) of .*; nothing is written\n", done.stderr)
    assert float(found[1]) > 1e-3 and "\n  scale_conv1" in done.stderr
    assert names(tmp_path) == []


# --- EfficientNet-Lite0, from its package


ABOUT = """\
# Input: B, G, R from 0 to 255 less 127, 127, 127, times 0.0078125.
# EfficientNet-Lite0 of efficientnet-lite0-57934424.pth, by python -m tools.convert_torch.
"""


@pytest.mark.program
def test_convert_torch_lite0_from_its_package_to_onnx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "NOISE", 1)
    checkpoint, out = in_package(LITE0.weights[0].file), tmp_path / "lite0"
    done = program("convert_torch", checkpoint, out)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{checkpoint}: EfficientNet-Lite0, 1000 classes\n")
    found = re.search(
        r"on 1 random inputs: of 19 blobs from conv1_bn to fc1000 \w+ differs most, by (\S+) ", done.stdout
    )
    assert 0 < float(found[1]) <= TOLERANCE and "the best class is the same for 1 of 1" in done.stdout
    assert "lite0_mda4.caffemodel, on images padded with 127, 127, 127: " in done.stdout
    assert names(tmp_path) == ["lite0.caffemodel", "lite0.prototxt", "lite0_mda4.caffemodel"]
    assert out.with_suffix(".prototxt").read_text().startswith(ABOUT)

    pixels = ("--mean", 127, "--scale", 1 / 128)
    done = program("export_onnx", f"{out}.prototxt", f"{out}.caffemodel", f"{out}.onnx", *pixels)
    assert done.returncode == 0, done.stderr
    assert "data N×3×224×224 → prob N×1000" in done.stdout and "agrees with Caffe: of " in done.stdout
    made = onnx.load(f"{out}.onnx")
    assert made.doc_string.startswith("Input: B, G, R from 0 to 255 less 127, 127, 127, times 0.0078125.")
    pads = {tuple(a.ints) for node in made.graph.node for a in node.attribute if a.name == "pads"}
    assert pads == {(0, 0, 0, 0), (0, 0, 1, 1), (1, 1, 1, 1), (1, 1, 2, 2), (2, 2, 2, 2)}

    done = program("export", "--net", f"{out}.prototxt", "--weights", f"{out}.caffemodel", tmp_path / "stock", *pixels)
    assert done.returncode == 0, done.stderr
    assert "pad_end" not in (tmp_path / "stock.prototxt").read_text() and "OpenCV" in done.stdout
