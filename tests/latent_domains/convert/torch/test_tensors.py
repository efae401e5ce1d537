"""Parts of storages are what PyTorch makes of them, and never reach outside."""

import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch is not installed (tools/setup.sh torch)")

import torch

from latent_domains.convert.torch.tensors import CheckpointError, escaped, strided

pytestmark = pytest.mark.torch

NUMBERS = np.arange(24, dtype=np.float32)


@pytest.mark.parametrize(
    ("offset", "shape", "strides"),
    [
        (0, (4, 3, 2), (1, 4, 12)),
        (23, (), ()),
        (1, (3, 2), (0, 22)),
        (5, (2, 2), (1, 1)),
        (5, (1, 2), (1 << 40, 3)),  # the stride of a single number may be anything
    ],
)
def test_strided_parts_are_pytorchs(offset, shape, strides):
    expected = torch.from_numpy(NUMBERS).as_strided(shape, strides, offset)
    np.testing.assert_array_equal(strided(NUMBERS, offset, shape, strides), expected.numpy())


@pytest.mark.parametrize(
    ("offset", "shape", "strides"),
    [
        (1, (2, 3, 4), (12, 4, 1)),
        (0, (2,), (24,)),
        (0, (5, 5), (0, 0)),  # more numbers than there are: a small file of a huge tensor
        (0, (1 << 62, 4), (1 << 62, 1)),
        (-1, (1,), (1,)),
        (0, (1,), (-1,)),
        (0, (True,), (1,)),
        (0, (1, 1), (1,)),
        (0, (1,) * 300_000, (1,) * 300_000),
        (0, (1,), (10**5000,)),
    ],
    ids=range(10),  # a number of 5000 digits has no words
)
def test_strided_what_reaches_outside_is_refused(offset, shape, strides):
    with pytest.raises(CheckpointError) as raised:
        strided(NUMBERS, offset, shape, strides)
    assert len(str(raised.value)) < 200


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("layer1.0.é 层", "layer1.0.é 层"),
        ("a\x1b[31m\r\n\u202e\ud800", r"a\x1b[31m\r\n\u202e\ud800"),
        ("", "''"),
        ("a" * 201, "a" * 200 + "… (201 characters)"),
    ],
)
def test_escaped_names_in_messages(text, found):
    assert escaped(text) == found
