"""Values and names: what stands for what, before and after."""

import numpy as np
import pytest

from latent_domains.convert.fold.fold import fold
from latent_domains.models.graph import blobs_after_forward, of_model, to_model
from latent_domains.models.model import forward, load
from latent_domains.models.prototxt import net_text
from tests.latent_domains.convert.fold.models import DATA, layer, mda, trained, tried

CONV = layer("conv", "Convolution", "data", "conv", "convolution_param { num_output: 6 kernel_size: 3 }")


def test_blobs_after_forward_a_graph_that_nothing_is_done_to_is_the_same_net() -> None:
    text = CONV + layer("bn", "BatchNorm", "conv", "conv") + layer("relu", "ReLU", "conv", "conv")
    text += layer("a", "Pooling", "conv", "a", "pooling_param { kernel_size: 2 }") + layer("b", "ReLU", "a", "a")
    text += layer("c", "TanH", "conv", "c") + layer("prob", "Softmax", "c", "prob")
    model = trained(DATA + text)
    net = load(model)
    graph = of_model(model, {name: tuple(blob.shape) for name, blob in net.blobs.items()})
    before = blobs_after_forward({value: value.name for value in graph.values()})
    assert set(before.values()) == {"data", "conv", "a", "c", "prob"}
    assert {value.name for value in graph.outputs} == {"a", "prob"}
    again, blobs = to_model(graph)
    assert net_text("", again.net) == net_text("", model.net)
    assert before == blobs_after_forward(blobs)
    x = np.random.default_rng(0).normal(size=(2, 4, 7, 6))
    for name, values in forward(load(again), x).items():
        np.testing.assert_array_equal(values, forward(net, x)[name])


def test_graph_an_output_keeps_its_name_and_other_blobs_are_called_after_their_layers() -> None:
    scale = layer("scale", "Scale", "bn", "scaled", "scale_param { bias_term: true }")
    text = CONV + layer("bn", "BatchNorm", "conv", "bn") + scale
    done = tried(trained(DATA + text))
    assert list(done.after) == ["data", "scaled"]
    done = tried(trained(DATA + text + layer("relu", "ReLU", "scaled", "scaled")))
    assert list(done.after) == ["data", "conv", "scaled"]
    done = tried(
        trained(DATA + text + layer("relu", "ReLU", "scaled", "scaled") + layer("p", "Softmax", "scaled", "p"))
    )
    assert done.folded.pairs == {"data": "data", "scaled": "conv", "p": "p"}


def test_graph_new_names_are_not_those_of_others() -> None:
    taken = layer("pool_rows", "ReLU", "pool", "pool_rows") + layer("pool_whole", "TanH", "pool", "silence_x")
    pool = layer("pool", "Pooling", "data", "pool", "pooling_param { kernel_size: 2 stride: 2 round_mode: FLOOR }")
    done = tried(trained(DATA + pool + taken))
    assert "pool_rows_:Slice" in done.layers and "pool_rows:ReLU" in done.layers
    assert {"pool_rows", "silence_x", "pool_whole_"} <= set(done.after)


LENT = {
    "flat": layer("flat", "Flatten", "relu", "x"),
    "flat and shaped": layer("flat", "Flatten", "relu", "flat")
    + layer("shaped", "Reshape", "flat", "x", "reshape_param { shape { dim: 0 dim: -1 } }"),
    "split": layer("split", "Split", "relu", "x other") + layer("p", "Softmax", "other", "p"),
}


@pytest.mark.parametrize("lent", LENT)
def test_graph_what_is_overwritten_where_it_lends_its_memory_is_not_compared(lent: str) -> None:
    """One net alone overwrites it: the folded one has no layer in place there."""
    text = layer("relu", "ReLU", "data", "relu") + LENT[lent] + layer("bn", "BatchNorm", "x", "x")
    done = tried(trained(DATA + text + layer("scale", "Scale", "x", "y") + layer("end", "Softmax", "y", "end")))
    assert not done.folded.pairs.keys() & {"relu", "flat"}
    assert done.folded.pairs.keys() >= {"data", "y", "end"}


def test_graph_what_a_layer_copies_is_compared() -> None:
    text = layer("cut", "Slice", "data", "a b") + layer("relu", "ReLU", "a", "a") + layer("all", "Concat", "a b", "all")
    text += layer("bn", "BatchNorm", "all", "all") + layer("end", "Softmax", "all", "end")
    assert tried(trained(DATA + text)).folded.pairs.keys() == {"data", "a", "b", "all", "end"}


def test_graph_normalisation_of_the_input_in_place() -> None:
    text = (
        mda("mda", "data", "first") + layer("bn", "BatchNorm", "first", "first") + layer("p", "Softmax", "first", "p")
    )
    assert tried(trained(DATA + text)).layers == "bn:Scale p:Softmax"
    done = tried(trained(DATA + layer("bn", "BatchNorm", "data", "data") + layer("p", "Softmax", "data", "p")))
    assert done.layers == "bn:Scale p:Softmax"


def test_graph_blobs_that_nothing_is_folded_into_are_the_models_own() -> None:
    """They may be most of what a program takes of memory."""
    text = CONV + layer("bn", "BatchNorm", "conv", "bn")
    text += layer("fc", "InnerProduct", "bn", "fc", "inner_product_param { num_output: 2 }")
    model = trained(DATA + text)
    folded = fold(model).model
    assert all(np.shares_memory(*blobs) for blobs in zip(folded.blobs["fc"], model.blobs["fc"], strict=True))
    assert folded.blobs["conv"][0].dtype == np.float32
    before = trained(DATA + text).blobs
    for name, blobs in model.blobs.items():
        for found, expected in zip(blobs, before[name], strict=True):
            np.testing.assert_array_equal(found, expected)
