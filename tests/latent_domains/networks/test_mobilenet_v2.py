"""MobileNetV2: PyTorch is the judge of Caffe, ONNX Runtime and OpenCV; random weights, in torchvision's layout."""

import csv
from pathlib import Path

import cv2
import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch is not installed (tools/setup.sh torch)")

import torch
from torch import nn

from latent_domains.convert.torch.read import read_checkpoint
from latent_domains.convert.torch.reference import torch_net
from latent_domains.models import compare
from latent_domains.models.graph import kind
from latent_domains.models.model import Array, forward, load, read_model
from latent_domains.models.onnx_file import Runtime
from latent_domains.networks.mobilenet_v2 import MOBILENET_V2
from latent_domains.networks.network import IMAGENET
from latent_domains.runs.run_folder import RunFolder
from tests.latent_domains.nets.experiments import nets_of
from tests.latent_domains.nets.graphs import layers
from tests.pictures import draw
from tests.programs import names, program

pytestmark = pytest.mark.torch

SETTINGS = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
"""Expansion, filters, blocks and stride of each stage: table 2 of the paper."""

MEAN = np.array([103.53, 116.28, 123.675], np.float32).reshape(3, 1, 1)
"""B, G, R."""


def unit(channels: int, filters: int, size: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    convolution = nn.Conv2d(channels, filters, size, stride, size // 2, groups=groups, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(filters), nn.ReLU6())


class Block(nn.Module):
    def __init__(self, channels: int, filters: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = channels * expansion
        expand = [unit(channels, wide, 1)] if expansion > 1 else []
        project = [nn.Conv2d(wide, filters, 1, bias=False), nn.BatchNorm2d(filters)]
        self.conv = nn.Sequential(*expand, unit(wide, wide, 3, stride, wide), *project)
        self.adds = stride == 1 and channels == filters

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.conv(x) if self.adds else self.conv(x)


class MobileNetV2(nn.Module):
    """The net for R, G, B from 0 to 1, standardised."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        modules, self.ends, channels = [unit(3, 32, 3, 2)], ["conv1_bn"], 32
        for stage, (expansion, filters, count, stride) in enumerate(SETTINGS, 1):
            for place in range(count):
                modules.append(Block(channels, filters, 1 if place else stride, expansion))
                self.ends.append(f"block{stage}{'abcd'[place]}{'' if modules[-1].adds else '_project_scale'}")
                channels = filters
        self.features = nn.Sequential(*modules, unit(channels, 1280, 1))
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(1280, classes))

    def values(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        """What the stem and every block end in, the features and the scores, by Caffe's names."""
        found = {}
        for name, module in zip([*self.ends, "conv2"], self.features, strict=True):
            x = found[name] = module(x)
        x = found["pool"] = found.pop("conv2").mean((2, 3), keepdim=True)
        scores = self.classifier(x.flatten(1))
        return {**found, f"fc{scores.shape[1]}": scores}


@pytest.fixture(scope="module")
def net() -> MobileNetV2:
    """A net as if it was trained: its statistics are near those of its activations, or these would explode."""
    torch.manual_seed(0)
    net = MobileNetV2(10)
    norms = [module for module in net.modules() if isinstance(module, nn.BatchNorm2d)]
    with torch.no_grad():
        for norm in norms:
            norm.weight.normal_(1, 0.3)
            norm.bias.normal_(0.5, 0.3)
            norm.momentum = 1.0
        net.train().values(torch.randn(8, 3, 64, 64))
        for norm in norms:
            norm.running_var *= torch.empty_like(norm.running_var).uniform_(0.5, 2)
    return net.eval()


@pytest.fixture(scope="module")
def checkpoint(net: MobileNetV2, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("checkpoint") / "mobilenet_v2.pth"
    torch.save(net.state_dict(), file)
    return file


@pytest.fixture(scope="module")
def pixels() -> Array:
    """Random pixels, 2×3×224×224, B, G, R."""
    return np.random.default_rng(0).integers(0, 256, (2, 3, 224, 224)).astype(np.float32)


@pytest.fixture(scope="module")
def expected(net: MobileNetV2, pixels: Array) -> dict[str, Array]:
    mean, std = (torch.tensor(values).reshape(3, 1, 1) for values in (IMAGENET.mean, IMAGENET.std))
    with torch.no_grad():
        values = net.values((torch.from_numpy(pixels[:, ::-1].copy()) / 255 - mean) / std)
    return {name: value.numpy() for name, value in values.items()}


def assert_close(found: dict[str, Array], expected: dict[str, Array]) -> None:
    for name, values in expected.items():
        assert found[name].shape == values.shape, name
        assert np.abs(found[name] - values).max() <= 1e-4 * np.abs(values).max(), name


def test_mobilenet_v2_every_bn_but_conv1s_is_mda() -> None:
    net = layers(nets_of("pacs", network="mobilenet_v2")[1]["train"])
    own = {name: layer for name, layer in net.items() if not name.startswith("domain_")}
    convolutions = [name for name, layer in own.items() if layer.type == "Convolution"]
    assert len(convolutions) == 52
    assert [name for name, layer in own.items() if layer.type == "BatchNorm"] == ["conv1_bn"]
    assert [name for name, layer in own.items() if kind(layer) == "MDALayer"] == [
        f"{name}_mda" for name in convolutions if name != "conv1"
    ]
    assert list(net["domain_res2a_branch2a"].bottom) == ["conv1_bn"]
    assert not any(layer.convolution_param.pad_end for layer in own.values())


def test_mobilenet_v2_tensors_and_reference_are_pytorchs(net, checkpoint, pixels, expected) -> None:
    found = read_checkpoint(checkpoint, head=True)
    state = {name: tuple(value.shape) for name, value in net.state_dict().items() if "num_batches" not in name}
    assert {name: values.shape for name, values in found.values.items()} == state and found.network is MOBILENET_V2
    values = torch_net(found, IMAGENET).run(pixels)
    assert set(values) == set(expected)
    assert_close(values, expected)


@pytest.mark.program
def test_mobilenet_v2_a_checkpoint_becomes_caffes_and_onnx(checkpoint, pixels, expected, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(compare, "NOISE", 1)
    out = tmp_path / "net"
    done = program("convert_torch", checkpoint, out)
    assert done.returncode == 0, done.stderr
    assert (
        done.stdout.startswith(f"{checkpoint}: MobileNetV2, 10 classes\n")
        and "of 20 blobs from conv1_bn" in done.stdout
    )
    assert names(tmp_path) == ["net.caffemodel", "net.prototxt", "net_mda4.caffemodel"]
    model = read_model(out.with_suffix(".prototxt"), out.with_suffix(".caffemodel"))
    assert_close(forward(load(model), pixels - MEAN), expected)
    mean = ("--mean", *MEAN.flat)
    done = program("export_onnx", f"{out}.prototxt", f"{out}.caffemodel", f"{out}.onnx", *mean)
    assert done.returncode == 0, done.stderr
    opencv = cv2.dnn.readNetFromONNX(f"{out}.onnx")
    opencv.setInput(pixels - MEAN)
    best = expected["fc10"].argmax(axis=1)
    for found in (opencv.forward(), Runtime(f"{out}.onnx").forward({"data": pixels - MEAN})["prob"]):
        np.testing.assert_array_equal(found.argmax(axis=1), best)


@pytest.mark.program
def test_mobilenet_v2_own_pictures_are_adapted_to_from_a_checkpoint(checkpoint, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(compare, "NOISE", 1)
    pictures, out = draw(tmp_path / "pictures", 4), tmp_path / "out"
    domains = ("--source", pictures / "photo", "--source", pictures / "cartoon", "--target", pictures / "sketch")
    net = ("--network", "mobilenet_v2", "--weights", checkpoint, "--image-size", 64, "--solver-mode", "CPU")
    done = program("adapt", *domains, "--out", out, *net, "--iterations", 2, "--batch-size", 24, "--threads", 1)
    assert done.returncode == 0, done.stderr
    run = RunFolder.load(out / "run")
    assert run.experiment.net.network == "mobilenet_v2"
    loaded = run.read_training().weights
    assert loaded.file == "mobilenet_v2_mda3.caffemodel"
    assert "Clip" in (out / "model.prototxt").read_text() and "MDALayer" not in (out / "model.prototxt").read_text()
    assert cv2.dnn.readNetFromONNX(str(out / "model.onnx")).getLayerNames()
    with (out / "predictions.csv").open() as file:
        assert len(list(csv.reader(file))) == 1 + 28
