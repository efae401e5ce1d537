"""Files are told apart by what is in them, whatever they are called; the state dict is found in what was saved."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

from latent_domains.convert.torch.read import find_net, named_tensors
from latent_domains.convert.torch.tensors import CheckpointError
from latent_domains.networks.lite0 import LITE0
from latent_domains.networks.resnet import basic_blocks, resnet_of

pytest.importorskip("torch", reason="PyTorch is not installed (tools/setup.sh torch)")

import torch
from safetensors.torch import save

from latent_domains.common.program import ProgramError
from latent_domains.convert.torch.read import read_checkpoint, read_safetensors
from tests.latent_domains.convert.torch.lua import Builder, written
from tests.latent_domains.convert.torch.nets import ResNet, saved, trained

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def narrow() -> ResNet:
    return trained((2, 2, 2, 2), 3, width=2)


@pytest.mark.parametrize("name", ["zip", "legacy", "safetensors", "t7"])
def test_read_checkpoint_every_format_is_known_by_its_contents(name, narrow, tmp_path):
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


def test_read_checkpoint_safetensors_whose_length_begins_as_an_onnx_file_does(tmp_path):
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
def test_read_checkpoint_other_files(data, said, tmp_path):
    (tmp_path / "file").write_bytes(data)
    with pytest.raises(ProgramError, match=f"file: {said}.*, expected a state dict of torch"):
        read_checkpoint(tmp_path / "file", head=True)


def test_read_checkpoint_no_file(tmp_path: Path):
    with pytest.raises(ProgramError, match="none: no such file, expected a checkpoint"):
        read_checkpoint(tmp_path / "none", head=True)


def test_read_safetensors_safetensors_are_read_as_they_were():
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


def test_read_safetensors_damaged_safetensors_are_refused():
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


TENSOR = np.ones(1, np.float32)

SMALL = resnet_of(basic_blocks(1, 1, 1, 1))


def net(value: float = 1.0, known=SMALL) -> dict[str, np.ndarray]:
    """All tensors of a net but its classifier's."""
    return {name: np.broadcast_to(np.float32(value), shape) for name, shape in known.torch.shapes().items()}


def below(prefix: str, tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {f"{prefix}{name}": tensor for name, tensor in tensors.items()}


FC = {"fc.weight": TENSOR, "fc.bias": TENSOR}


@pytest.mark.parametrize(
    ("saved", "prefix", "left"),
    [
        (net() | FC, "", ()),
        (net(known=LITE0), "", ()),
        ({"epoch": 3, "state_dict": below("module.", net())}, "state_dict.module.", ()),
        (
            {"model": net(), "optimizer": {"state": {0: {"momentum": TENSOR}}}},
            "model.",
            ("optimizer.state.0.momentum",),
        ),
        (below("backbone.", net()) | {"head.weight": TENSOR}, "backbone.", ("head.weight",)),
        (below("model.module.encoder_q.", net() | FC), "model.module.encoder_q.", ()),
        ({"a": {"b": {"c": below("net.", net(known=LITE0))}}}, "a.b.c.net.", ()),
    ],
)
def test_find_net_the_only_net(saved, prefix, left):
    found, notes = find_net(named_tensors(saved))
    assert {"layer1.0.conv1.weight", "_conv_stem.weight"} & set(found) and not any("module" in name for name in found)
    expected = [f"the net is below the prefix {prefix}"] if prefix else []
    assert list(notes) == expected + ([f"left out: {', '.join(left)}"] if left else [])


def test_find_net_a_net_that_is_kept_twice_is_read_once():
    """As DomainBed does: the featurizer, and the net that it is a part of."""
    saved = {"model_dict": below("featurizer.network.", net()) | below("network.0.network.", net())}
    found, notes = find_net(named_tensors(saved))
    assert set(found) == set(net()) and notes == ("the net is below the prefix model_dict.featurizer.network.",)


MOCO = {"state_dict": below("module.encoder_q.", net()) | below("module.encoder_k.", net(2)) | {"module.queue": TENSOR}}


@pytest.mark.parametrize("prefix", ["encoder_k", "module.encoder_k", "state_dict.module.encoder_k", "encoder_k."])
def test_find_net_nets_that_differ_need_a_choice(prefix):
    tensors = named_tensors(MOCO)
    with pytest.raises(
        CheckpointError,
        match=r"^nets that differ lie below state_dict\.module\.encoder_q\., .*k\.: --prefix chooses one$",
    ):
        find_net(tensors)
    found, notes = find_net(tensors, prefix)
    assert found["conv1.weight"].max() == 2 and notes[0] == "the net is below the prefix state_dict.module.encoder_k."
    assert notes[1].startswith("left out: state_dict.module.encoder_q.conv1.weight, ")


def test_find_net_a_prefix_of_no_net():
    with pytest.raises(
        CheckpointError, match=r"^--prefix model: found no known net there, expected state_dict\..*_q\.,"
    ):
        find_net(named_tensors(MOCO), "model")
    with pytest.raises(CheckpointError, match=r"^--prefix encoder: found no known net there"):
        find_net(named_tensors(MOCO), "encoder")
    ema = {"model": net(), **net(2)}
    assert find_net(named_tensors(ema), "")[0]["conv1.weight"].max() == 2
    assert find_net(named_tensors(ema), "model")[0]["conv1.weight"].max() == 1


def test_find_net_a_part_of_a_net_does_not_stand_in_the_way():
    """A teacher of which some tensors were dropped, before the whole net."""
    part = {name: tensor for name, tensor in net(2).items() if "layer4" not in name}
    found, _ = find_net(named_tensors(below("teacher.", part) | below("student.", net())))
    assert found["conv1.weight"].max() == 1 and "layer4.0.conv1.weight" in found


def test_find_net_other_nets_are_returned_as_they_are():
    assert find_net({"a": TENSOR, "layer1.0.conv1.bias": TENSOR}) == ({"a": TENSOR, "layer1.0.conv1.bias": TENSOR}, ())


@pytest.mark.parametrize(
    ("saved", "said"),
    [
        ([1], "it holds a list and no tensor by name, expected a state dict"),
        (TENSOR, "it holds a ndarray and no tensor by name"),
        ({"state_dict": {}}, "it holds a dict and no tensor by name"),
        ({"a": {"b": TENSOR}, "a.b": TENSOR}, r"two tensors in it are called a\.b, expected names that differ"),
    ],
)
def test_named_tensors_what_holds_no_state_dict(saved, said):
    with pytest.raises(CheckpointError, match=said):
        named_tensors(saved)


def test_named_tensors_dicts_within_dicts_end():
    deep: dict[str, object] = {"a": TENSOR}
    for _ in range(2000):
        deep = {"d": deep}
    with pytest.raises(CheckpointError, match="no tensor by name"):
        named_tensors(deep)
    wide: dict[str, object] = {"a": TENSOR}
    wide["itself"] = wide
    assert list(named_tensors(wide)) == ["a"]


def test_named_tensors_dicts_that_hold_one_another_many_times_are_not_walked_for_ever():
    saved = {"weight": TENSOR}
    for _ in range(7):
        saved = dict.fromkeys(range(40), saved)
    with pytest.raises(CheckpointError, match="it holds more than 1,000,000 dicts and tensors, expected a state dict"):
        named_tensors(saved)
