"""Files are told apart by what is in them, whatever they are called."""

import pickle
from pathlib import Path

import pytest
from safetensors.torch import save

from latent_domains.common.program import ProgramError
from latent_domains.convert.torch.read import read_resnet
from tests.latent_domains.convert.torch.lua import Builder, written
from tests.latent_domains.convert.torch.nets import ResNet, saved, trained

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def narrow() -> ResNet:
    return trained((2, 2, 2, 2), 3, width=2)


@pytest.mark.parametrize("name", ["zip", "legacy", "safetensors", "t7"])
def test_every_format_is_known_by_its_contents(name, narrow, tmp_path):
    """The net is too narrow, and that is found in each of them."""
    data = {
        "zip": lambda: saved(narrow.state_dict(), new=True),
        "legacy": lambda: saved({"state_dict": narrow.state_dict(), "epoch": 1}, new=False),
        "safetensors": lambda: save({f"module.encoder_q.{name}": value for name, value in narrow.state_dict().items()}),
        "t7": lambda: written(Builder().net(narrow)),
    }[name]()
    file = tmp_path / "resnet18.caffemodel"
    file.write_bytes(data)
    with pytest.raises(ProgramError, match=r"resnet18\.caffemodel: tensor conv1\.weight is 2×3×7×7, expected 64×3×7×7"):
        read_resnet(file, head=True)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "0 bytes of a format that is not known here"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "a web page or a pointer of Git LFS, not the"),
        (b"\n<!DOCTYPE html>", "a web page or a pointer of Git LFS, not the file itself"),
        (b"4\n1\n3\nV 1\n", "10 bytes of a format that is not known here"),
        (written({"model": 1}), "[0-9]+ bytes of a format that is not known here"),
        (pickle.dumps({"a": 1}), "[0-9]+ bytes of a format that is not known here"),
        (b"name: 'net' layer { }", "21 bytes of a format that is not known here"),
    ],
)
def test_other_files(data, said, tmp_path):
    (tmp_path / "file").write_bytes(data)
    with pytest.raises(ProgramError, match=f"file: {said}.*, expected a state dict of torch"):
        read_resnet(tmp_path / "file", head=True)


def test_no_file(tmp_path: Path):
    with pytest.raises(ProgramError, match="none: no such file, expected a checkpoint"):
        read_resnet(tmp_path / "none", head=True)
    with pytest.raises(ProgramError, match="a folder, expected a checkpoint"):
        read_resnet(tmp_path, head=True)
