"""The state dict in what was saved."""

import numpy as np
import pytest

from latent_domains.convert.torch.state import state_dict
from latent_domains.convert.torch.tensors import CheckpointError, Tensor

TENSOR = Tensor("float32", (1,), lambda: np.ones(1, np.float32))


@pytest.mark.parametrize("wrapper", ["state_dict", "model", "model_state_dict"])
def test_training_checkpoints(wrapper):
    assert state_dict({"epoch": 3, "optimizer": {"state": {}}, wrapper: {"a": TENSOR}}) == {"a": TENSOR}


def test_prefix_of_parallel_modules():
    assert list(state_dict({"module.a": TENSOR, "module.module.b": TENSOR})) == ["a", "module.b"]
    assert list(state_dict({"module.a": TENSOR, "b": TENSOR})) == ["module.a", "b"]


@pytest.mark.parametrize(
    ("saved", "said"),
    [
        ([1], "it holds a list, expected a state dict"),
        (TENSOR, "it holds a Tensor, expected a state dict"),
        ({}, "an empty state dict"),
        ({"state_dict": {}}, "an empty state dict"),
        ({"a": TENSOR, "epoch": 3}, "'epoch' in it is a int, expected a dict of tensors by name, or one as state_dict"),
        ({3: TENSOR}, "3 in it is a Tensor, expected a dict of tensors by name"),
        ({"state_dict": {"a": TENSOR}, "model": {"a": TENSOR}}, "several state dicts, state_dict, model: expected one"),
    ],
)
def test_what_holds_no_state_dict(saved, said):
    with pytest.raises(CheckpointError, match=said):
        state_dict(saved)
