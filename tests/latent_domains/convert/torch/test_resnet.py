"""What makes a ResNet18, ResNet34 or ResNet50, and what another net is called."""

import re

import numpy as np
import pytest
import torch

from latent_domains.convert.torch.architectures import described
from latent_domains.convert.torch.resnet import residual_net, shapes, units
from latent_domains.convert.torch.tensors import CheckpointError, Tensor
from latent_domains.nets.resnet import convolution_name, normalisation_name
from tests.latent_domains.convert.torch.nets import RESNET18, RESNET34, RESNET50, Block, Bottleneck, ResNet

pytestmark = pytest.mark.torch


def state(
    blocks: tuple[int, ...] = RESNET18, classes: int = 10, kind: type[Block] | type[Bottleneck] = Block
) -> dict[str, Tensor]:
    """Tensors of ones in the shapes of PyTorch's, which has no memory for them here."""
    with torch.device("meta"):
        net = ResNet(blocks, classes, kind=kind)
    return {name: ones(tuple(value.shape)) for name, value in net.state_dict().items()}


def ones(shape: tuple[int, ...], kind: str = "float32") -> Tensor:
    return Tensor(kind, shape, lambda: np.ones(shape, np.float32))


def refused(tensors: dict[str, Tensor], match: str, *, head: bool = True) -> None:
    with pytest.raises(CheckpointError, match=match):
        residual_net(tensors, head=head)


@pytest.mark.parametrize(
    ("layers", "blocks", "kind"), [(18, RESNET18, Block), (34, RESNET34, Block), (50, RESNET50, Bottleneck)]
)
def test_tensors_are_those_of_pytorchs_net(layers, blocks, kind):
    tensors = state(blocks, kind=kind)
    expected = {name: tensor.shape for name, tensor in tensors.items() if "num_batches" not in name}
    assert shapes(layers) | {"fc.weight": (10, 512 * kind.expansion), "fc.bias": (10,)} == expected
    found = residual_net(tensors, head=True)
    assert (found.layers, found.classes, set(found.values), found.notes) == (layers, 10, set(expected), ())
    headless = residual_net(tensors, head=False)
    assert headless.classes is None and set(found.values) - set(headless.values) == {"fc.weight", "fc.bias"}


def test_names_of_caffes_layers():
    names = [(convolution_name(unit.path), normalisation_name("bn", unit.path)) for unit in units(34)]
    assert names[0] == ("conv1", "bn_conv1")
    assert names[1:3] == [("res2a_branch2a", "bn2a_branch2a"), ("res2a_branch2b", "bn2a_branch2b")]
    assert ("res3a_branch1", "bn3a_branch1") in names and ("res2a_branch1", "bn2a_branch1") not in names
    assert {name for name, _ in names} >= {"res3d_branch2b", "res4f_branch2a", "res5c_branch2b"}
    assert len(names) == 36 and normalisation_name("scale", "conv1") == "scale_conv1"
    names = [convolution_name(unit.path) for unit in units(50)]
    assert names[:5] == ["conv1", "res2a_branch2a", "res2a_branch2b", "res2a_branch2c", "res2a_branch1"]
    assert "res4f_branch2c" in names and "res2b_branch1" not in names and len(names) == 53


def test_missing_and_extra_tensors_are_named():
    tensors = state()
    del tensors["layer2.0.downsample.1.running_var"], tensors["bn1.weight"]
    tensors["layer1.0.se.fc1.weight"] = ones((3,))
    refused(
        tensors,
        r"a ResNet18 by its blocks, but lacking bn1\.weight, layer2\.0\.downsample\.1\.running_var and "
        r"with layer1\.0\.se\.fc1\.weight$",
    )
    many = {**state(), **{f"x{i:02}": ones((1,)) for i in range(11)}}
    refused(many, r"with x00, x01, x02, x03, x04, x05, x06, x07 and 3 more$")


def test_another_head_is_left_out_by_no_head():
    """As fine-tuning programs put it there: ``net.fc = nn.Sequential(nn.Dropout(), nn.Linear(512, 5))``."""
    tensors = {name: tensor for name, tensor in state().items() if not name.startswith("fc.")}
    tensors |= {"fc.1.weight": ones((5, 512)), "fc.1.bias": ones((5,))}
    refused(tensors, r"no fc\.weight, the classifier, but fc\.1\.weight, fc\.1\.bias: expected one, or --no-head to")
    headless = residual_net(tensors, head=False)
    assert headless.classes is None and set(headless.values) == set(shapes(18))
    assert headless.notes == ("left out with the head: fc.1.weight, fc.1.bias",)
    refused(state() | {"fc.1.weight": ones((5, 10))}, r"with fc\.1\.weight, or --no-head to do without$")
    refused(state() | {"aux.fc.weight": ones((5,)), "fc.x": ones(())}, r"but with aux\.fc\.weight, fc\.x$")
    refused(state() | {"aux.fc.weight": ones((5,)), "fc.x": ones(())}, r"but with aux\.fc\.weight$", head=False)


def test_a_head_without_a_bias_has_zeros():
    tensors = state()
    del tensors["fc.bias"]
    found = residual_net(tensors, head=True)
    np.testing.assert_array_equal(found.values["fc.bias"], np.zeros(10))
    assert found.classes == 10 and found.notes == ("no fc.bias: taken as zeros",)


def test_names_of_others_are_shown_within_bounds():
    tensors = {"a\x1b[2J\n": ones((1,)), "b" * 1_000_000: ones((1,)), "é": ones((1,)), "": ones((1,))}
    shown = r"'', a\\x1b\[2J\\n, b{200}… \(1000000 characters\), é$"
    refused({**state(), **tensors}, r"with a\\x1b\[2J\\n, b{200}… \(1000000 characters\), é, ''$")
    assert re.search(shown, described(tensors))


def test_wrong_shapes_are_shown_beside_the_right_ones():
    refused(
        {**state(), "layer3.0.conv1.weight": ones((256, 64, 3, 3))},
        r"tensor layer3\.0\.conv1\.weight is 256×64×3×3, expected 256×128×3×3 in a ResNet18",
    )
    refused({**state(), "fc.weight": ones((10, 2048))}, r"fc\.weight is 10×2048, expected 10×512 in .*18, or --no-head")
    refused({**state(), "fc.weight": ones((10,))}, r"tensor fc\.weight is 10, expected classes×512, or --no-head")
    refused({**state(), "fc.bias": ones((11,))}, r"tensor fc\.bias is 11, expected 10 in a ResNet18")


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        ((64, 3, 3, 3), r"64×3×3×3 \(for small images, such as CIFAR's\), expected 64×3×7×7"),
        ((64, 1, 7, 7), r"64×1×7×7 \(for gray images\), expected 64×3×7×7"),
        ((64, 4, 7, 7), "64×4×7×7, expected 64×3×7×7"),
        ((), "a scalar, expected 64×3×7×7"),
    ],
)
def test_other_stems(shape, said):
    refused({**state(), "conv1.weight": ones(shape)}, rf"tensor conv1\.weight is {said}")


def test_other_numbers_of_blocks():
    bottlenecks = state((1, 1, 1, 1), kind=Bottleneck)
    refused(bottlenecks, "like a ResNet, whose blocks have three convolutions, expected ResNet18, ResNet34 or ResNet50")
    refused(state((1, 1, 1, 1)), "a residual net of 1 1 1 1 blocks in its stages, expected 2 2 2 2 of ResNet18 or 3 4")


def test_a_net_beside_others():
    beside = {f"q.{name}": value for name, value in state().items()} | {"queue": ones((3,))}
    refused(beside, r"it holds a residual net under q\. and, beside it, queue: expected it alone")
    refused(
        {**beside, "k.layer1.0.conv1.weight": ones((1,))},
        r"it holds a residual net under each of q\., k\.: expected a single one",
    )


def test_numbers_that_cannot_be():
    def with_value(name: str, value: float) -> dict[str, Tensor]:
        tensors = state()
        array = np.ones(tensors[name].shape, np.float32)
        array.flat[1] = value
        return {**tensors, name: Tensor("float32", array.shape, lambda: array)}

    refused(with_value("layer4.1.conv2.weight", np.nan), r"layer4\.1\.conv2\.weight holds 1 numbers that are not")
    refused(with_value("fc.bias", np.inf), r"tensor fc\.bias holds 1 numbers that are not finite")
    refused(with_value("bn1.running_var", -0.5), r"tensor bn1\.running_var holds a variance of -0\.5, expected none b")
    refused({**state(), "bn1.bias": ones((64,), "int64")}, r"tensor bn1\.bias: numbers of int64, expected float64")


def test_conversions_are_noted():
    tensors = {**state(), "fc.bias": Tensor("float64", (10,), lambda: np.ones(10))}
    assert residual_net(tensors, head=True).notes == ("1 of 102 tensors are float64: converted to float32",)


def bottleneck(blocks: int) -> dict[str, Tensor]:
    """Names of a ResNet of such blocks, as many as that in its third stage."""
    return {
        **{"conv1.weight": ones((64, 3, 7, 7)), "layer1.0.conv1.weight": ones((64, 64, 1, 1))},
        **{"layer1.0.conv3.weight": ones((256, 64, 1, 1))},
        **{f"layer3.{i}.conv1.weight": ones((256, 512, 1, 1)) for i in range(blocks)},
    }


@pytest.mark.parametrize(
    ("tensors", "family"),
    [
        (bottleneck(23), "ResNet101"),
        (bottleneck(36), "ResNet152"),
        (bottleneck(7), "a ResNet"),
        ({"conv1.0.weight": ones((32, 3, 3, 3)), "layer1.0.conv1.weight": ones((64, 64, 3, 3))}, "resnet18d"),
        ({"features.0.weight": ones((64, 3, 3, 3)), "classifier.6.weight": ones((1000, 4096))}, "VGG"),
        ({"features.0.weight": ones((64, 3, 11, 11)), "classifier.6.weight": ones((1000, 4096))}, "AlexNet"),
        ({"features.denseblock1.denselayer1.conv1.weight": ones((1,))}, "DenseNet"),
        ({"features.0.0.weight": ones((32, 3, 3, 3)), "features.1.conv.0.0.weight": ones((1,))}, "MobileNet v2"),
        ({"features.0.0.weight": ones((16, 3, 3, 3)), "features.1.block.0.0.weight": ones((1,))}, "MobileNet v3"),
        ({"conv_stem.weight": ones((32, 3, 3, 3))}, "timm's MobileNet"),
        ({"class_token": ones((1,)), "conv_proj.weight": ones((1,))}, "vision transformer"),
        ({"cls_token": ones((1,)), "patch_embed.proj.weight": ones((1,))}, "vision transformer"),
        ({"inception3a.branch1.conv.weight": ones((1,))}, "GoogLeNet"),
        ({"features.3.squeeze.weight": ones((1,)), "features.0.weight": ones((1,))}, "SqueezeNet"),
        ({"resnet.embedder.embedder.convolution.weight": ones((64, 3, 7, 7))}, "the library transformers"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_other_nets_are_called_by_their_names(tensors, family):
    refused(tensors, rf"it looks like .*{re.escape(family)}.*, expected ResNet18, ResNet34 or ResNet50")


def test_nets_that_are_not_known_are_shown_by_their_tensors():
    assert described({f"w{i:02}": ones((1,)) for i in range(12)}).endswith(
        "no net that is known here: w00, w01, w02, w03, w04, w05, w06, w07, w08, w09 and 2 more"
    )
