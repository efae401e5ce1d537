"""What makes a ResNet, and which."""

import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch is not installed (tools/setup.sh torch)")

import torch

from latent_domains.convert.torch.read import Checkpoint, find_network, take
from latent_domains.convert.torch.tensors import CheckpointError
from latent_domains.networks.resnet import DEPTHS, basic_blocks, bottlenecks, resnet_of
from tests.latent_domains.convert.torch.nets import RESNET18, RESNET34, RESNET50, Block, Bottleneck, ResNet

pytestmark = pytest.mark.torch


def state(
    blocks: tuple[int, ...] = RESNET18, classes: int = 10, kind: type[Block] | type[Bottleneck] = Block
) -> dict[str, np.ndarray]:
    """Tensors of ones in the shapes of PyTorch's, which has no memory for them here."""
    with torch.device("meta"):
        net = ResNet(blocks, classes, kind=kind)
    return {name: ones(tuple(value.shape)) for name, value in net.state_dict().items()}


def ones(shape: tuple[int, ...], kind: str = "float32") -> np.ndarray:
    return np.broadcast_to(np.ones((), kind), shape)


def residual_net(tensors: dict[str, np.ndarray], *, head: bool) -> Checkpoint:
    return take(tensors, find_network(tensors), head=head)


def refused(tensors: dict[str, np.ndarray], match: str, *, head: bool = True) -> None:
    with pytest.raises(CheckpointError, match=match):
        residual_net(tensors, head=head)


@pytest.mark.parametrize(
    ("layers", "blocks", "kind"), [(18, RESNET18, Block), (34, RESNET34, Block), (50, RESNET50, Bottleneck)]
)
def test_tensors_are_those_of_pytorchs_net(layers, blocks, kind):
    tensors = state(blocks, kind=kind)
    expected = {name: tensor.shape for name, tensor in tensors.items() if "num_batches" not in name}
    assert resnet_of(layers).torch.shapes() | {"fc.weight": (10, 512 * kind.expansion), "fc.bias": (10,)} == expected
    found = residual_net(tensors, head=True)
    assert (found.network.title, found.classes, found.notes) == (f"ResNet{layers}", 10, ())
    assert set(found.values) == set(expected)
    headless = residual_net(tensors, head=False)
    assert headless.classes is None and set(found.values) - set(headless.values) == {"fc.weight", "fc.bias"}


@pytest.mark.parametrize(
    ("blocks", "kind", "depth", "title"),
    [
        ((2, 2, 2, 3), Block, basic_blocks(2, 2, 2, 3), "ResNet of 2 2 2 3 blocks"),
        ((1, 1, 1, 1), Bottleneck, bottlenecks(1, 1, 1, 1), "ResNet of 1 1 1 1 bottlenecks"),
        ((3, 4, 23, 3), Bottleneck, DEPTHS[101], "ResNet101"),
    ],
)
def test_find_network_any_number_of_blocks(blocks, kind, depth, title):
    found = residual_net(state(blocks, kind=kind), head=True).network
    assert (found.torch.units, found.title) == (resnet_of(depth).torch.units, title)


def test_find_network_missing_and_extra_tensors_are_named():
    tensors = state()
    del tensors["layer2.0.downsample.1.running_var"], tensors["bn1.weight"]
    tensors["layer1.0.se.fc1.weight"] = ones((3,))
    refused(
        tensors,
        r"ResNet18 by its blocks, but lacking bn1\.weight, layer2\.0\.downsample\.1\.running_var and "
        r"with layer1\.0\.se\.fc1\.weight$",
    )
    many = {**state(), **{f"x{i:02}": ones((1,)) for i in range(11)}}
    refused(many, r"with x00, x01, x02, x03, x04, x05, x06, x07 and 3 more$")


def test_find_network_another_head_is_left_out_by_no_head():
    """As fine-tuning programs put it there: ``net.fc = nn.Sequential(nn.Dropout(), nn.Linear(512, 5))``."""
    tensors = {name: tensor for name, tensor in state().items() if not name.startswith("fc.")}
    tensors |= {"fc.1.weight": ones((5, 512)), "fc.1.bias": ones((5,))}
    refused(tensors, r"lacking fc\.weight, fc\.bias and with fc\.1\.weight, fc\.1\.bias; --no-head leaves the class")
    headless = residual_net(tensors, head=False)
    assert headless.classes is None and set(headless.values) == set(resnet_of(18).torch.shapes())
    refused(state() | {"aux.fc.weight": ones((5,)), "fc.x": ones(())}, r"but with aux\.fc\.weight$", head=False)


def test_find_network_wrong_shapes_are_shown_beside_the_right_ones():
    refused(
        {**state(), "layer3.0.conv1.weight": ones((256, 64, 3, 3))},
        r"tensor layer3\.0\.conv1\.weight is 256×64×3×3, expected 256×128×3×3 in ResNet18",
    )
    refused({**state(), "fc.weight": ones((10, 2048))}, r"fc\.weight is 10×2048, expected 10×512 in .*18; --no-head")
    refused({**state(), "fc.weight": ones((10,))}, r"tensor fc\.weight is 10, expected 10×512 in .*; --no-head")
    refused({**state(), "fc.bias": ones((11,))}, r"tensor fc\.bias is 11, expected 10 in ResNet18")


@pytest.mark.parametrize("shape", [(64, 3, 3, 3), (64, 1, 7, 7), ()])
def test_find_network_other_stems(shape):
    refused({**state(), "conv1.weight": ones(shape)}, r"tensor conv1\.weight is .*, expected 64×3×7×7")


def test_find_network_other_nets():
    refused({name: tensor for name, tensor in state().items() if "layer3" not in name}, "layer3 has 0 blocks, expected")
    many = {f"w{i:02}": ones((1,)) for i in range(12)}
    refused(
        many,
        "its tensors are w00, w01, .*, w09 and 2 more: expected those of ResNet18, .*, EfficientNet-Lite0, Mob",
    )


def test_find_network_numbers_that_cannot_be():
    def with_value(name: str, value: float) -> dict[str, np.ndarray]:
        tensors = state()
        array = np.ones(tensors[name].shape, np.float32)
        array.flat[1] = value
        return {**tensors, name: array}

    refused(with_value("layer4.1.conv2.weight", np.nan), r"layer4\.1\.conv2\.weight holds 1 numbers that are not")
    refused(with_value("fc.bias", np.inf), r"tensor fc\.bias holds 1 numbers that are not finite")
    refused(with_value("bn1.running_var", -0.5), r"tensor bn1\.running_var holds a variance of -0\.5, expected none b")
    refused({**state(), "bn1.bias": ones((64,), "int64")}, r"tensor bn1\.bias: numbers of int64, expected float64")
