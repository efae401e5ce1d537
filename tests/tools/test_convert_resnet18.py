"""The former name of tools.convert_resnet: the same files, the same options, the same messages."""

import pytest
import torch

from tests.latent_domains.convert.torch.nets import RESNET18, ResNet
from tests.programs import child, names, program

pytestmark = pytest.mark.torch


def test_the_former_name_does_the_same(tmp_path):
    torch.manual_seed(0)
    torch.save(ResNet(RESNET18, 10).state_dict(), tmp_path / "net.pth")
    for name in ("convert_resnet", "convert_resnet18"):
        done = program(name, tmp_path / "net.pth", tmp_path / name / "net", "--no-verify", "--num-domains", 2)
        assert done.returncode == 0, done.stderr
    files = names(tmp_path / "convert_resnet")
    assert files == names(tmp_path / "convert_resnet18") == ["net.caffemodel", "net.prototxt", "net_mda2.caffemodel"]
    for file in files:
        new, former = ((tmp_path / name / file).read_bytes() for name in ("convert_resnet", "convert_resnet18"))
        assert former.replace(b"tools.convert_resnet18", b"tools.convert_resnet") == new


def test_messages_have_the_name_that_was_called(tmp_path):
    done = program("convert_resnet18", tmp_path / "none.pth", tmp_path / "out", "--std", "0", "1", "1")
    assert done.returncode == 2 and "usage: python -m tools.convert_resnet18 " in done.stderr
    helped = child("convert_resnet18", "--help")
    assert helped.returncode == 0 and "The former name of python -m tools.convert_resnet" in helped.stdout
