"""Layers that do nothing at test time, and branches that nothing needs."""

import numpy as np
import pytest

from latent_domains.models.model import load
from tests.latent_domains.convert.fold.models import DATA, layer, trained, tried

FC = layer("fc", "InnerProduct", "data", "fc", "inner_product_param { num_output: 3 }")


def test_dropout_goes_wherever_it_stands() -> None:
    end = layer("end", "Softmax", "fc", "end")
    assert (
        tried(trained(DATA + FC + layer("drop", "Dropout", "fc", "fc") + end)).layers == "fc:InnerProduct end:Softmax"
    )
    text = FC + layer("drop", "Dropout", "fc", "drop") + layer("end", "Softmax", "drop", "end")
    assert tried(trained(DATA + text)).layers == "fc:InnerProduct end:Softmax"
    both = text + layer("other", "ReLU", "fc", "other")
    assert tried(trained(DATA + both)).layers == "fc:InnerProduct end:Softmax other:ReLU"


def test_dropout_that_makes_an_output() -> None:
    assert tried(trained(DATA + FC + layer("drop", "Dropout", "fc", "drop"))).layers == "fc:InnerProduct"
    text = FC + layer("drop", "Dropout", "fc", "drop") + layer("other", "ReLU", "fc", "other")
    assert tried(trained(DATA + text)).layers == "fc:InnerProduct drop:Dropout other:ReLU"


def test_dropout_between_a_layer_and_its_scale_is_no_obstacle() -> None:
    text = FC + layer("drop", "Dropout", "fc", "fc") + layer("bn", "BatchNorm", "fc", "bn")
    assert tried(trained(DATA + text)).layers == "fc:InnerProduct"


LENT = {
    "the input": layer("drop", "Dropout", "data", "x"),
    "the input, flat": layer("flat", "Flatten", "data", "lent") + layer("drop", "Dropout", "lent", "x"),
    "the input, cut nowhere": layer("cut", "Slice", "data", "lent") + layer("drop", "Dropout", "lent", "x"),
    "the input, by two Dropouts": layer("one", "Dropout", "data", "y") + layer("two", "Dropout", "y", "x"),
    "a constant": 'layer { name: "constant" type: "DummyData" top: "lent" dummy_data_param { shape { dim: 1 dim: 9 } '
    'data_filler { type: "constant" value: 2 } } }' + layer("drop", "Dropout", "lent", "x"),
}
"""A Dropout whose copy of ``lent`` may be overwritten, where ``lent`` itself may not."""


@pytest.mark.parametrize("lent", LENT)
def test_what_one_pass_leaves_to_the_next_is_not_overwritten(lent: str) -> None:
    text = LENT[lent] + layer("relu", "ReLU", "x", "x") + layer("tanh", "TanH", "x", "x")
    text += layer("fc", "InnerProduct", "x", "fc", "inner_product_param { num_output: 3 }")
    if lent == "a constant":
        text += layer("other", "ReLU", "data", "other")
    folded = tried(trained(DATA + text), rows=1).folded
    assert "Dropout" not in {one.type for one in folded.model.net.layer}
    net = load(folded.model)
    net.blobs["data"].data[...] = np.random.default_rng(0).normal(size=net.blobs["data"].shape)
    first, second = (net.forward()["fc"].copy() for _ in range(2))
    np.testing.assert_array_equal(first, second)
    (tanh,) = [one for one in folded.model.net.layer if one.name == "tanh"]
    assert tanh.bottom == tanh.top == ["x"]  # what relu makes is filled anew by each pass


def test_what_another_layer_reads_is_not_overwritten_by_way_of_what_shares_its_memory() -> None:
    text = FC + layer("flat", "Flatten", "fc", "flat") + layer("drop", "Dropout", "flat", "x")
    text += layer("relu", "ReLU", "x", "x") + layer("end", "Softmax", "x", "end")
    text += layer("other", "TanH", "fc", "other")
    done = tried(trained(DATA + text))
    assert done.layers == "fc:InnerProduct flat:Flatten relu:ReLU end:Softmax other:TanH"


def test_an_input_that_the_net_itself_overwrites_still_is() -> None:
    text = layer("drop", "Dropout", "data", "data") + layer("relu", "ReLU", "data", "data") + FC
    relu = tried(trained(DATA + text)).folded.model.net.layer[1]
    assert (relu.type, *relu.bottom, *relu.top) == ("ReLU", "data", "data")


def test_split_goes_and_its_readers_stay_apart() -> None:
    text = FC + layer("split", "Split", "fc", "a b") + layer("relu", "ReLU", "a", "c") + layer("p", "Softmax", "b", "p")
    done = tried(trained(DATA + text + layer("sum", "Eltwise", "c p", "sum")))
    assert done.layers == "fc:InnerProduct relu:ReLU p:Softmax sum:Eltwise"
    text = FC + layer("split", "Split", "fc", "a b") + layer("relu", "ReLU", "a", "c")
    assert tried(trained(DATA + text)).layers == "fc:InnerProduct split:Split relu:ReLU"


def test_a_branch_that_was_silenced_disappears() -> None:
    text = FC + layer("side", "InnerProduct", "data", "side", "inner_product_param { num_output: 2 }")
    text += layer("relu", "ReLU", "side", "side") + 'layer { name: "quiet" type: "Silence" bottom: "side" }'
    assert tried(trained(DATA + text)).layers == "fc:InnerProduct"


def test_half_of_a_layer_that_was_silenced_still_is() -> None:
    text = layer("cut", "Slice", "data", "a b", "slice_param { axis: 1 slice_point: 1 }")
    text += 'layer { name: "quiet" type: "Silence" bottom: "b" }'
    done = tried(trained(DATA + text))
    assert done.layers == "cut:Slice silence_b:Silence"
