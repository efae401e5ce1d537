"""Parts of storages are what PyTorch makes of them, and never reach outside."""

import itertools
import pickle

import numpy as np
import pytest
import torch

from latent_domains.convert.torch.tensors import RAW, CheckpointError, Tensor, of_values, strided

pytestmark = pytest.mark.torch

NUMBERS = np.arange(24, dtype=np.float32)


@pytest.mark.parametrize(
    ("offset", "shape", "strides"),
    [
        (0, (2, 3, 4), (12, 4, 1)),
        (0, (4, 3, 2), (1, 4, 12)),
        (23, (1,), (1,)),
        (23, (), ()),
        (1, (3, 2), (0, 22)),
        (5, (2, 2), (1, 1)),
        (5, (1, 2), (1 << 40, 3)),
    ],
)
def test_parts_are_pytorchs(offset, shape, strides):
    expected = torch.from_numpy(NUMBERS).as_strided(shape, strides, offset)
    np.testing.assert_array_equal(strided(NUMBERS, offset, shape, strides), expected.numpy())


@pytest.mark.parametrize(
    ("offset", "shape", "strides", "said"),
    [
        (24, (1,), (1,), "does not lie within its storage of 24 numbers"),
        (1, (2, 3, 4), (12, 4, 1), "2×3×4, with strides 12×4×1 from number 1 on, does not lie within"),
        (0, (2,), (24,), "does not lie within"),
        (0, (5, 5), (0, 0), "does not lie within"),  # more numbers than there are: a small file of a huge tensor
        (0, (1 << 62, 4), (1 << 62, 1), "does not lie within"),
        (-1, (1,), (1,), "expected a number ≥ 0"),
        (0, (1,), (-1,), "expected a number ≥ 0"),
        (0, (-1, 2), (1, 1), "expected a number ≥ 0"),
        (0, (1.0,), (1,), "expected a number ≥ 0"),
        (0, (True,), (1,), "expected a number ≥ 0"),
        (0, (1, 1), (1,), "expected a number ≥ 0"),
        (0, (1,) * 9, (1,) * 9, "a tensor of 9 axes, expected at most 8"),
        (0, (1,) * 300_000, (1,) * 300_000, "^a tensor of 300000 axes, expected at most 8$"),
        (0, (10**5000, 3, 7, 7), (1,) * 4, r"sizes \(<a number of 16610 bits>, 3, 7, 7\)"),
        (0, (1,), (10**5000,), "expected a number ≥ 0 and < 2\\^63"),
        (1 << 63, (1,), (1,), "expected a number ≥ 0 and < 2\\^63"),
    ],
    ids=map(str, itertools.count()),  # a number of 5000 digits has no words
)
def test_what_reaches_outside_is_refused(offset, shape, strides, said):
    with pytest.raises(CheckpointError, match=said):
        strided(NUMBERS, offset, shape, strides)


def test_strides_of_single_numbers_may_be_anything():
    np.testing.assert_array_equal(strided(NUMBERS, 5, (1, 2), (1 << 62, 3)), [[5, 8]])


def test_empty_parts_are_empty():
    assert strided(NUMBERS, 99, (0, 5), (5, 1)).size == 0


@pytest.mark.parametrize("kind", ["float64", "float32", "float16", "bfloat16"])
def test_floats_become_float32_as_in_pytorch(kind):
    x = torch.tensor([0.1, -3.5e4, 2.0**-14, torch.inf, torch.nan], dtype=getattr(torch, kind))
    raw = x.view(torch.int16).numpy().view(RAW[kind]) if kind == "bfloat16" else x.numpy()
    found = Tensor(kind, (5,), lambda: raw).values()
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, x.float().numpy())


def test_values_are_copies():
    array = np.ones(3, np.float32)
    of_values(array).values()[0] = 5
    assert array[0] == 1


def test_whole_numbers_are_no_weights():
    with pytest.raises(CheckpointError, match="numbers of int64, expected float64, float32, float16, bfloat16"):
        Tensor("int64", (1,), lambda: np.zeros(1, np.int64)).values()


def test_a_pickle_cannot_set_a_tensors_fields():
    with pytest.raises(CheckpointError, match="sets attributes of a Tensor"):
        pickle.loads(pickle.dumps(Tensor("float32", (), print)))  # noqa: S301
