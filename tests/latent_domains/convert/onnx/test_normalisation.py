"""LRN, BatchNorm, Scale and Bias."""

import numpy as np
import pytest

from latent_domains.convert.onnx.layer import Refused
from latent_domains.models.model import Model, forward, load
from latent_domains.models.onnx_runtime import Runtime
from tests.latent_domains.convert.onnx.nets import assert_agrees, compared, exported, random_model, with_input
from tests.latent_domains.nets.graphs import parse

LAYERS = {
    # alpha is large here: at 1e-4 another convention for it would hardly show.
    "LRN": 'type: "LRN" lrn_param { local_size: 5 alpha: 3 beta: 0.75 k: 2 }',
    "LRN of three": 'type: "LRN" lrn_param { local_size: 3 alpha: 0.5 beta: 0.5 }',
    "LRN wider than the channels": 'type: "LRN" lrn_param { local_size: 9 alpha: 1 }',
    "BatchNorm": 'type: "BatchNorm" batch_norm_param { eps: 0.1 }',
    "BatchNorm, told so": 'type: "BatchNorm" batch_norm_param { use_global_stats: true }',
    "Scale": 'type: "Scale" scale_param { bias_term: true }',
    "Scale without bias": 'type: "Scale"',
    "Scale of two axes": 'type: "Scale" scale_param { axis: 1 num_axes: 2 bias_term: true }',
    "Scale to the end": 'type: "Scale" scale_param { axis: -2 num_axes: -1 }',
    "Scale by a number": 'type: "Scale" scale_param { num_axes: 0 bias_term: true }',
    "Bias": 'type: "Bias"',
    "Bias of the last axis": 'type: "Bias" bias_param { axis: -1 }',
    "Bias of a number": 'type: "Bias" bias_param { axis: 0 num_axes: 0 }',
}

REFUSED = {
    'type: "LRN" lrn_param { norm_region: WITHIN_CHANNEL }': "norm_region: WITHIN_CHANNEL, expected ACROSS_CHANNELS",
    'type: "BatchNorm" batch_norm_param { use_global_stats: false }': "use_global_stats: false, expected statistics",
    'type: "Scale" scale_param { axis: 0 }': "axis: the first axis is the batch",
    'type: "Bias" bias_param { axis: -4 num_axes: 2 }': "axis: the first axis is the batch",
}


def layer(rest: str) -> str:
    return f'layer {{ name: "a" bottom: "data" top: "a" {rest} }}'


@pytest.mark.parametrize("rest", LAYERS.values(), ids=LAYERS)
def test_layer(rest: str) -> None:
    # Values of a few units: LRN divides larger ones down to next to nothing.
    before = 'layer { name: "b" type: "Power" bottom: "data" top: "b" power_param { scale: 0.01 } }'
    assert_agrees(with_input(before + layer(rest).replace("data", "b"), 6, 5, 4), "a", "b")


@pytest.mark.parametrize("kind", ["BatchNorm", "Scale", "Bias"])
def test_rows_instead_of_images(kind: str) -> None:
    assert_agrees(with_input(layer(f'type: "{kind}"'), 6), "a")


def test_statistics_of_nothing_are_zeros() -> None:
    net = parse(with_input(layer('type: "BatchNorm" batch_norm_param { eps: 0.5 }'), 3, 2, 2))
    zeros = Model(net, {"a": [np.ones(3, np.float32), np.ones(3, np.float32), np.zeros(1, np.float32)]})
    x = np.random.default_rng(0).normal(size=(2, 3, 2, 2)).astype(np.float32)
    expected = forward(load(zeros), x)["a"]
    np.testing.assert_allclose(expected, x / np.sqrt(0.5), rtol=1e-5)
    found = Runtime(exported(zeros).SerializeToString()).forward({"data": x})["a"]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_rows_of_factors_and_of_summands_for_each_image() -> None:
    """As mDA with several latent targets is folded: x · A + B, where A and B come from the images' assignments."""
    text = """
        layer { name: "pool" type: "Pooling" bottom: "data" top: "pool"
                pooling_param { pool: AVE global_pooling: true } }
        layer { name: "w" type: "InnerProduct" bottom: "pool" top: "w" inner_product_param { num_output: 2 } }
        layer { name: "A" type: "InnerProduct" bottom: "w" top: "A"
                inner_product_param { num_output: 3 bias_term: false } }
        layer { name: "B" type: "InnerProduct" bottom: "w" top: "B"
                inner_product_param { num_output: 3 bias_term: false } }
        layer { name: "scaled" type: "Scale" bottom: "data" bottom: "A" top: "scaled" scale_param { axis: 0 } }
        layer { name: "moved" type: "Bias" bottom: "scaled" bottom: "B" top: "moved" bias_param { axis: 0 } }
        layer { name: "rows" type: "Scale" bottom: "A" bottom: "B" top: "rows" scale_param { axis: -2 } }"""
    assert_agrees(with_input(text, 3, 4, 5), "scaled", "moved", "rows")


@pytest.mark.parametrize("rest", REFUSED)
def test_refused(rest: str) -> None:
    with pytest.raises(Refused, match=rf"^layer a \(\w+\): {REFUSED[rest]}"):
        compared(with_input(layer(rest), 6, 5, 4))


@pytest.mark.parametrize(
    ("param", "reason"),
    [("axis: 1", "axis: 1 with a second bottom, expected 0"), ("axis: 0 bias_term: true", "bias_term: true with a")],
)
def test_second_bottoms_that_are_no_rows_are_refused(param: str, reason: str) -> None:
    # Two images of 2×3: rows of 3 fit axis 1 by chance, for this batch alone.
    text = f"""
        layer {{ name: "x" type: "InnerProduct" bottom: "data" top: "x" inner_product_param {{ num_output: 3 }} }}
        layer {{ name: "y" type: "InnerProduct" bottom: "data" top: "y" inner_product_param {{ num_output: 2 }} }}
        layer {{ name: "a" type: "Scale" bottom: "data" bottom: "{"x" if "1" in param else "y"}" top: "a"
                 scale_param {{ {param} }} }}"""
    net = parse(with_input(text, 2, 3))
    with pytest.raises(Refused, match=rf"^layer a \(Scale\): {reason}"):
        exported(random_model(net))
