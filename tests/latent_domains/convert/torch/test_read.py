"""Files are told apart by what is in them, whatever they are called; the state dict is found in what was saved."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch is not installed (tools/setup.sh torch)")

import torch
from safetensors.torch import save

from latent_domains.common.program import ProgramError
from latent_domains.convert.torch.read import read_checkpoint, read_safetensors
from latent_domains.convert.torch.tensors import CheckpointError
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
        read_checkpoint(file, head=True)


def test_safetensors_whose_length_begins_as_an_onnx_file_does(tmp_path):
    data = save({"a": torch.ones(1)})
    header = data[8:-4].rstrip()
    padded = header + b" " * (0x108 - len(header))  # a length of 08 01 00 …
    (tmp_path / "file").write_bytes(len(padded).to_bytes(8, "little") + padded + data[-4:])
    with pytest.raises(ProgramError, match=r"file: its tensors are a: expected those of ResNet18"):
        read_checkpoint(tmp_path / "file", head=True)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "0 bytes of a format that is not known here"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "a web page or a pointer of Git LFS, not the"),
        (b"\n<!DOCTYPE html>", "a web page or a pointer of Git LFS, not the file itself"),
        (written({"model": 1}), "[0-9]+ bytes of a format that is not known here"),
        (pickle.dumps({"a": 1}), "[0-9]+ bytes of a format that is not known here"),
        (b"name: 'net' layer { }", "21 bytes of a format that is not known here"),
    ],
)
def test_other_files(data, said, tmp_path):
    (tmp_path / "file").write_bytes(data)
    with pytest.raises(ProgramError, match=f"file: {said}.*, expected a state dict of torch"):
        read_checkpoint(tmp_path / "file", head=True)


def test_no_file(tmp_path: Path):
    with pytest.raises(ProgramError, match="none: no such file, expected a checkpoint"):
        read_checkpoint(tmp_path / "none", head=True)


def test_safetensors_are_read_as_they_were():
    kinds = ("float64", "float32", "float16", "bfloat16")
    expected = {kind: torch.randn(2, 3).to(getattr(torch, kind)) for kind in kinds}
    expected["count"] = torch.tensor(7)
    found = read_safetensors(save(expected, metadata={"format": "pt"}))
    assert set(found) == set(expected) and found["count"].dtype == np.int64
    for kind in kinds:
        assert found[kind].dtype.name == kind
        np.testing.assert_array_equal(found[kind].astype(np.float32), expected[kind].float().numpy())


def with_header(size: int, **entry: object) -> bytes:
    header = json.dumps({"a\n": {"dtype": "F32", "shape": [3], "data_offsets": [0, size], **entry}}).encode()
    return len(header).to_bytes(8, "little") + header + bytes(size)


def test_damaged_safetensors_are_refused():
    data = save({"a": torch.ones(3), "b": torch.ones(2, 2)})
    damaged = [data[:size] for size in range(len(data))]
    damaged += [with_header(12, **{name: value}) for name, value in (("data_offsets", [0, 1 << 40]), ("shape", [-1]))]
    damaged += [with_header(0, shape=[0, 1 << 62, 1 << 62]), with_header(4, shape=[1] * 9)]
    damaged.append(save({"q": torch.ones(2).to(torch.float8_e4m3fn)}))
    for one in damaged:
        with pytest.raises(
            CheckpointError, match=r"damaged or truncated safetensors|expected at most 8 of F64"
        ) as error:
            read_safetensors(one)
        assert str(error.value).isprintable() and len(str(error.value)) < 500
