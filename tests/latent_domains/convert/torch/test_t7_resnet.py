"""Nets of fb.resnet.torch by torchvision's names."""

import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch is not installed (tools/setup.sh torch)")

from latent_domains.convert.torch import t7
from latent_domains.convert.torch.t7 import state_dict
from latent_domains.convert.torch.tensors import CheckpointError
from tests.latent_domains.convert.torch.lua import Builder, Object, tensor, written
from tests.latent_domains.convert.torch.nets import Bottleneck, ResNet, trained

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def net() -> ResNet:
    return trained((1, 2, 1, 1), 5, width=4)


def read(root: object) -> dict[str, np.ndarray]:
    return state_dict(t7.read(written(root)))


CHOICES = {
    "nn": {},
    "cudnn": {"namespace": "cudnn", "kind": "Cuda"},
    "fbnn": {"namespace": "fbnn", "kind": "Double"},
    "half": {"kind": "CudaHalf"},
    "matrices": {"matrix": True},
    "biases": {"biases": True},
    "old": {"old": True},
    "old without eps": {"old": True, "eps": None},
    "old with biases in cudnn": {"old": True, "biases": True, "namespace": "cudnn"},
    "other eps": {"eps": 1e-3},
}


@pytest.mark.parametrize("choice", CHOICES)
def test_read_every_tensor_is_pytorchs(choice, net):
    """A bias goes into the mean and another eps into the variance, for the same output."""
    found = read(Builder(**CHOICES[choice]).net(net))
    expected = {name: value.numpy() for name, value in net.state_dict().items() if "num_batches" not in name}
    assert set(found) == set(expected)
    tolerance = 1e-3 if choice == "half" else 2e-6
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=tolerance, atol=tolerance, err_msg=name)


def module(root: Object, *path: int) -> Object:
    """The module at a place in the tree, counted from 1."""
    for place in path:
        root = root.fields["modules"][place - 1]
    return root


def refused(root: Object, match: str) -> None:
    with pytest.raises(CheckpointError, match=match):
        read(root)


def test_read_smallest_variance_of_old_bn_is_nothing_but_rounding(net):
    root = Builder(old=True).net(net)
    largest = np.float32(1e-5**-0.5)
    module(root, 2).fields["running_std"] = tensor([largest, np.nextafter(largest, np.float32(1000)), 1, 2])
    np.testing.assert_allclose(read(root)["bn1.running_var"], [0, 0, 1 - 1e-5, 0.25 - 1e-5], rtol=1e-6, atol=1e-11)


@pytest.mark.parametrize("value", [0, -1, 317, np.nan, np.inf])
def test_read_inverse_deviations_that_cannot_be_are_refused(value, net):
    root = Builder(old=True).net(net)
    module(root, 2).fields["running_std"] = tensor(np.array([1, 2, value, 3], np.float32))
    refused(root, rf"the net\.2: its running_std holds {value:g}, expected inverse standard deviations .*316\.228")


@pytest.mark.parametrize("eps", [1e-6, 0, -1, 2, "x"])
def test_read_other_eps_that_caffe_cannot_have(eps, net):
    root = Builder().net(net)
    module(root, 2).fields["eps"] = eps
    refused(root, r"the net\.2: its eps is ")


@pytest.mark.parametrize(
    ("path", "field", "value", "match"),
    [
        ((1,), "dW", 1, r"the net\.1 \(SpatialConvolution\): its dW is 1, expected 2"),
        ((1,), "padH", 0, r"the net\.1 \(SpatialConvolution\): its padH is 0, expected 3"),
        ((4,), "ceil_mode", True, r"the net\.4 \(SpatialMaxPooling\) rounds its size up, expected down"),
        ((6, 1, 1, 1, 1), "dH", 1, r"the net\.6\.1\.1\.1\.1 \(SpatialConvolution\): its dH is 1, expected 2"),
        ((6, 1, 1, 2, 1), "dH", 1, r"the net\.6\.1\.1\.2\.1 \(SpatialConvolution\): its dH is 1, expected 2"),
        ((6, 2, 1, 1, 1), "groups", 2, r"its groups is 2, expected 1"),
        ((1,), "weight", None, r"the net\.1: its weight is NoneType, expected a tensor"),
        ((1,), "weight", 5, r"the net\.1: its weight is int, expected a tensor"),
        ((1,), "weight", tensor(np.ones((4, 100))), r"the net\.1: its weight is 4×100, expected 4×3×7×7"),
        ((1,), "bias", tensor(np.ones(3)), r"the net\.1: its bias is 3, expected 4"),
        ((2,), "weight", tensor([1, 2], "Long"), r"the net\.2: its weight is int64, expected a tensor of floats"),
        ((5, 1), "modules", None, r"the net\.5\.1 \(Sequential\) holds '', expected"),
    ],
)
def test_read_what_is_not_as_in_fb_resnet_torch(path, field, value, match, net):
    root = Builder().net(net)
    module(root, *path).fields[field] = value
    refused(root, match)


def test_read_other_modules_are_named(net):
    def changed(place: int, other: object, *path: int) -> Object:
        root = Builder().net(net)
        module(root, *path).fields["modules"][place - 1] = other
        return root

    refused(changed(3, Object("nn.Tanh", {})), "the net .* holds SpatialConvolution SpatialBatchNormalization Tanh ")
    refused(changed(3, Object("mine.ReLU", {})), r"the net\.3 is a mine\.ReLU, expected an object of nn, cudnn, fbnn")
    refused(changed(1, Object("nn.ReLU", {}), 5), r"the net\.5 \(Sequential\) holds ReLU")
    root = Builder().net(net)
    root.fields["modules"].append(Object("nn.Dropout", {}))
    refused(root, r"the net \(Sequential\) holds .* Linear Dropout, expected")
    refused(tensor([1]), r"the net is a ndarray, expected an object of nn")


def test_read_without_classifier_or_with_a_softmax(net):
    root = Builder().net(net)
    root.fields["modules"].append(Object("cudnn.LogSoftMax", {}))
    assert "fc.weight" in read(root)
    root.fields["modules"] = root.fields["modules"][:9]
    assert "fc.weight" not in read(root)


def test_read_bottlenecks_have_their_stride_in_the_middle():
    net = trained((1, 1, 1, 1), 5, width=4, kind=Bottleneck)
    found = read(Builder().net(net))
    expected = {name: value.numpy() for name, value in net.state_dict().items() if "num_batches" not in name}
    assert set(found) == set(expected) and {"layer1.0.conv3.weight", "layer1.0.bn3.running_var"} < set(found)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=2e-6, atol=2e-6, err_msg=name)
    root = Builder().net(net)
    for place, stride in ((1, 2), (4, 1)):  # as He et al. had it first
        module(root, 6, 1, 1, 1, place).fields.update(dW=stride, dH=stride)
    refused(root, r"the net\.6\.1\.1\.1\.1 \(SpatialConvolution\): its dW is 2, expected 1")
