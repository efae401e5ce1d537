"""The net is found wherever a training program put it."""

import numpy as np
import pytest

from latent_domains.convert.torch.prefixes import find_net, named_tensors
from latent_domains.convert.torch.tensors import CheckpointError
from latent_domains.networks.lite0 import LITE0
from latent_domains.networks.resnet import basic_blocks, resnet_of

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
def test_the_only_net(saved, prefix, left):
    found, notes = find_net(named_tensors(saved))
    assert {"layer1.0.conv1.weight", "_conv_stem.weight"} & set(found) and not any("module" in name for name in found)
    expected = [f"the net is what lies below {prefix}"] if prefix else []
    assert list(notes) == expected + ([f"left out: {', '.join(left)}"] if left else [])


def test_a_net_that_is_kept_twice_is_read_once():
    """As DomainBed does: the featurizer, and the net that it is a part of."""
    saved = {"model_dict": below("featurizer.network.", net()) | below("network.0.network.", net())}
    found, notes = find_net(named_tensors(saved))
    assert set(found) == set(net()) and notes == ("the net is what lies below model_dict.featurizer.network.",)


MOCO = {"state_dict": below("module.encoder_q.", net()) | below("module.encoder_k.", net(2)) | {"module.queue": TENSOR}}


@pytest.mark.parametrize("prefix", ["encoder_k", "module.encoder_k", "state_dict.module.encoder_k", "encoder_k."])
def test_nets_that_differ_need_a_choice(prefix):
    tensors = named_tensors(MOCO)
    with pytest.raises(
        CheckpointError,
        match=r"^nets that differ lie below state_dict\.module\.encoder_q\., .*k\.: --prefix chooses one$",
    ):
        find_net(tensors)
    found, notes = find_net(tensors, prefix)
    assert found["conv1.weight"].max() == 2 and notes[0] == "the net is what lies below state_dict.module.encoder_k."
    assert notes[1].startswith("left out: state_dict.module.encoder_q.conv1.weight, ")


def test_a_prefix_of_no_net():
    with pytest.raises(
        CheckpointError, match=r"^--prefix model: no known net lies there, expected state_dict\..*_q\.,"
    ):
        find_net(named_tensors(MOCO), "model")
    with pytest.raises(CheckpointError, match=r"^--prefix encoder: no known net lies there"):
        find_net(named_tensors(MOCO), "encoder")
    ema = {"model": net(), **net(2)}
    assert find_net(named_tensors(ema), "")[0]["conv1.weight"].max() == 2
    assert find_net(named_tensors(ema), "model")[0]["conv1.weight"].max() == 1


def test_a_part_of_a_net_does_not_stand_in_the_way():
    """A teacher of which some tensors were dropped, before the whole net."""
    part = {name: tensor for name, tensor in net(2).items() if "layer4" not in name}
    found, _ = find_net(named_tensors(below("teacher.", part) | below("student.", net())))
    assert found["conv1.weight"].max() == 1 and "layer4.0.conv1.weight" in found


def test_other_nets_are_returned_as_they_are():
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
def test_what_holds_no_state_dict(saved, said):
    with pytest.raises(CheckpointError, match=said):
        named_tensors(saved)


def test_dicts_within_dicts_end():
    deep: dict[str, object] = {"a": TENSOR}
    for _ in range(2000):
        deep = {"d": deep}
    with pytest.raises(CheckpointError, match="no tensor by name"):
        named_tensors(deep)
    wide: dict[str, object] = {"a": TENSOR}
    wide["itself"] = wide
    assert list(named_tensors(wide)) == ["a"]


def test_dicts_that_hold_one_another_many_times_are_not_walked_for_ever():
    saved = {"weight": TENSOR}
    for _ in range(7):
        saved = dict.fromkeys(range(40), saved)
    with pytest.raises(CheckpointError, match="it holds more than 1,000,000 dicts and tensors, expected a state dict"):
        named_tensors(saved)
