"""Safetensors as the library writes them, and damaged."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import save

from latent_domains.convert.torch.safetensors_file import read
from latent_domains.convert.torch.tensors import CheckpointError

pytestmark = pytest.mark.torch


def test_tensors_are_read_as_they_were():
    torch.manual_seed(0)
    expected = {
        f"{kind}": torch.randn(2, 3).to(getattr(torch, kind)) for kind in ("float64", "float32", "float16", "bfloat16")
    }
    expected["count"] = torch.tensor(7)
    found = read(save(expected, metadata={"format": "pt"}))
    assert set(found) == set(expected)
    for name, tensor in expected.items():
        assert found[name].shape == tuple(tensor.shape)
        if name != "count":
            assert found[name].kind == name
            np.testing.assert_array_equal(found[name].values(), tensor.float().numpy())
    assert found["count"].kind == "int64"


def test_truncated_or_damaged_is_refused():
    data = save({"a": torch.ones(3), "b": torch.ones(2, 2)})
    for size in range(len(data)):
        with pytest.raises(CheckpointError, match="damaged or truncated safetensors"):
            read(data[:size])
    for entry in ({"data_offsets": [0, 1 << 40]}, {"data_offsets": [4, 16]}, {"shape": [1 << 40]}, {"shape": [-1]}):
        header = json.dumps({"a": {"dtype": "F32", "shape": [3], "data_offsets": [0, 12], **entry}}).encode()
        with pytest.raises(CheckpointError, match="damaged or truncated safetensors"):
            read(len(header).to_bytes(8, "little") + header + bytes(12))


@pytest.mark.parametrize("shape", [[1] * 300_000, [0, 1 << 62, 1 << 62], [0, (1 << 64) - 1], [1] * 9])
def test_sizes_that_no_array_has_are_refused(shape):
    size = 0 if 0 in shape else 4
    header = json.dumps({"a\n": {"dtype": "F32", "shape": shape, "data_offsets": [0, size]}}).encode()
    with pytest.raises(CheckpointError, match=r"damaged or truncated|expected at most 8 axes") as raised:
        read(len(header).to_bytes(8, "little") + header + bytes(size))
    assert str(raised.value).isprintable() and len(str(raised.value)) < 500


def test_numbers_of_other_kinds_are_refused():
    with pytest.raises(CheckpointError, match="tensor q: numbers of F8_E4M3, expected one of F64, F32"):
        read(save({"q": torch.ones(2).to(torch.float8_e4m3fn)}))
