"""The state dict in what was saved."""

import numpy as np
import pytest

from latent_domains.convert.torch.state import state_dict, without_prefix
from latent_domains.convert.torch.tensors import CheckpointError, Tensor

TENSOR = Tensor("float32", (1,), lambda: np.ones(1, np.float32))


@pytest.mark.parametrize("wrapper", ["state_dict", "model", "model_state_dict", "net"])
def test_training_checkpoints(wrapper):
    assert state_dict({"epoch": 3, "optimizer": {"state": {}}, wrapper: {"a": TENSOR}}) == {"a": TENSOR}


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.", "model.", "module.encoder_q."])
def test_what_all_names_begin_with_is_left_out(prefix):
    found, notes = without_prefix({f"{prefix}conv1.weight": TENSOR, f"{prefix}module.b": TENSOR})
    assert list(found) == ["conv1.weight", "module.b"]
    assert notes == (f"all names begin with {prefix}, which is left out",)


def test_what_some_names_begin_with_stays():
    for tensors in ({"module.a": TENSOR, "b": TENSOR}, {"conv1.weight": TENSOR, "convolution.weight": TENSOR}):
        assert without_prefix(tensors) == (tensors, ())


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
