"""Per-channel maps go where they can: into the layer before them, else into one Scale."""

import re

import numpy as np
import pytest
from caffe.proto.caffe_pb2 import PoolingParameter

from tests.latent_domains.convert.fold.models import DATA, Tried, layer, mda, trained, tried

CONV = "convolution_param { num_output: 6 kernel_size: 3 "
IP = "inner_product_param { num_output: 5 "
BIAS = "scale_param { bias_term: true }"

CONVOLUTIONS = {
    "bias": layer("x", "Convolution", "data", "x", CONV + "}"),
    "no bias": layer("x", "Convolution", "data", "x", CONV + "bias_term: false }"),
    "groups": layer("x", "Convolution", "data", "x", CONV + "group: 2 pad: 1 stride: 2 }"),
    "dilation": layer("x", "Convolution", "data", "x", CONV + "dilation: 2 bias_term: false }"),
    "sides": layer("x", "Convolution", "data", "x", "convolution_param { num_output: 6 kernel_h: 3 kernel_w: 1 }"),
    "deconvolution": layer("x", "Deconvolution", "data", "x", CONV + "stride: 2 }"),
    "deconvolution in groups": layer("x", "Deconvolution", "data", "x", CONV + "group: 2 bias_term: false }"),
    "inner product": layer("x", "InnerProduct", "data", "x", IP + "}"),
    "no bias either": layer("x", "InnerProduct", "data", "x", IP + "bias_term: false }"),
    "transposed": layer("x", "InnerProduct", "data", "x", IP + "transpose: true }"),
}

CHAINS = {
    "bn": layer("bn", "BatchNorm", "x", "y"),
    "bn scale": layer("bn", "BatchNorm", "x", "bn") + layer("scale", "Scale", "bn", "y", BIAS),
    "scale": layer("scale", "Scale", "x", "y"),
    "bias": layer("bias", "Bias", "x", "y"),
    "mda": mda("mda", "x", "y"),
    "mda scale": mda("mda", "x", "mda") + layer("scale", "Scale", "mda", "y", BIAS),
    "in place": layer("bn", "BatchNorm", "x", "x")
    + layer("scale", "Scale", "x", "x", BIAS)
    + layer("relu", "ReLU", "x", "x")
    + layer("y", "Power", "x", "y"),
    "twice": layer("bn", "BatchNorm", "x", "bn")
    + layer("s", "Scale", "bn", "s")
    + mda("m", "s", "m")
    + layer("b", "Bias", "m", "y"),
}


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("before", CONVOLUTIONS)
def test_maps_go_into_the_layer_before(before: str, chain: str) -> None:
    done = tried(trained(DATA + CONVOLUTIONS[before] + CHAINS[chain]))
    (kind,) = re.findall(r'type: "(\w+)"', CONVOLUTIONS[before])
    rest = " relu:ReLU y:Power" if chain == "in place" else ""
    assert done.layers == f"x:{kind}{rest}"


def test_an_inner_product_that_nothing_follows_is_written_untransposed() -> None:
    """OpenCV does not read ``transpose``."""
    done = tried(trained(DATA + CONVOLUTIONS["transposed"] + layer("p", "Softmax", "x", "p")))
    (made,) = [one for one in done.folded.model.net.layer if one.name == "x"]
    assert not made.inner_product_param.transpose
    assert done.folded.model.blobs["x"][0].shape == (5, 4 * 7 * 6)


def test_a_bias_that_stays_zero_is_left_out() -> None:
    model = trained(DATA + CONVOLUTIONS["no bias"] + layer("scale", "Scale", "x", "y"))
    (blobs,) = tried(model).folded.model.blobs.values()
    assert len(blobs) == 1
    model = trained(DATA + CONVOLUTIONS["no bias"] + layer("bn", "BatchNorm", "x", "y"))
    (blobs,) = tried(model).folded.model.blobs.values()
    assert len(blobs) == 2


ALONE = {
    "input": ("", "data"),
    "relu": (layer("conv", "Convolution", "data", "conv", CONV + "}") + layer("x", "ReLU", "conv", "x"), "x"),
    "pool": (layer("x", "Pooling", "data", "x", "pooling_param { kernel_size: 2 }"), "x"),
}


@pytest.mark.parametrize("before", ALONE)
def test_maps_that_no_layer_can_take_become_one_scale(before: str) -> None:
    text, x = ALONE[before]
    done = tried(trained(DATA + text + mda("mda", x, "mda") + layer("scale", "Scale", "mda", "y", BIAS)))
    assert done.layers.endswith("scale:Scale") and "mda" not in done.layers
    done = tried(trained(DATA + text + layer("bn", "BatchNorm", x, "y")))
    assert done.layers.endswith("bn:Scale")


def test_a_scale_that_follows_nothing_stays_as_it_is() -> None:
    model = trained(DATA + layer("scale", "Scale", "data", "y", BIAS))
    done = tried(model)
    assert done.layers == "scale:Scale"
    for found, expected in zip(done.folded.model.blobs["scale"], model.blobs["scale"], strict=True):
        np.testing.assert_array_equal(found, expected)


def test_a_bias_that_follows_nothing_becomes_a_scale_of_ones() -> None:
    """OpenCV knows no Bias."""
    model = trained(DATA + layer("b", "Bias", "data", "y"))
    done = tried(model)
    assert done.layers == "b:Scale"
    ones, offsets = done.folded.model.blobs["b"]
    assert (ones == 1).all()
    np.testing.assert_array_equal(offsets, model.blobs["b"][0])


def test_what_something_else_reads_stays() -> None:
    conv = CONVOLUTIONS["bias"]
    done = tried(trained(DATA + conv + layer("bn", "BatchNorm", "x", "bn") + layer("other", "ReLU", "x", "other")))
    assert done.layers == "x:Convolution bn:Scale other:ReLU"
    text = layer("bn", "BatchNorm", "x", "bn") + layer("s", "Scale", "bn", "s", BIAS) + layer("o", "ReLU", "bn", "o")
    assert tried(trained(DATA + conv + text)).layers == "x:Convolution s:Scale o:ReLU"
    text = mda("mda", "data", "mda") + layer("s", "Scale", "mda", "s", BIAS) + layer("o", "ReLU", "mda", "o")
    assert tried(trained(DATA + text)).layers == "mda:Scale s:Scale o:ReLU"


def test_both_sides_of_an_addition_are_folded_each_for_itself() -> None:
    text = CONVOLUTIONS["bias"] + layer("bn", "BatchNorm", "x", "bn")
    text += layer("x2", "Convolution", "data", "x2", CONV + "}") + mda("mda", "x2", "mda")
    text += layer("sum", "Eltwise", "bn mda", "sum")
    assert tried(trained(DATA + text)).layers == "x:Convolution x2:Convolution sum:Eltwise"


NO_MAPS = {
    "all axes": ("Scale", "scale_param { axis: 1 num_axes: -1 }"),
    "other axis": ("Scale", "scale_param { axis: 2 }"),
    "one value": ("Scale", "scale_param { num_axes: 0 }"),
    "bias on another axis": ("Bias", "bias_param { axis: -1 }"),
    "statistics of the batch": ("BatchNorm", "batch_norm_param { use_global_stats: false }"),
    "phase of its own": ("BatchNorm", "phase: TRAIN"),
}


@pytest.mark.parametrize("case", NO_MAPS)
def test_layers_that_are_no_maps_of_channels_stay(case: str) -> None:
    kind, more = NO_MAPS[case]
    done = tried(trained(DATA + CONVOLUTIONS["bias"] + layer("y", kind, "x", "y", more)))
    assert done.layers == f"x:Convolution y:{kind}"


def test_axes_from_behind_are_the_same_axes() -> None:
    text = layer("x", "InnerProduct", "data", "x", IP + "axis: -3 }")
    text += layer("y", "Scale", "x", "y", "scale_param { axis: -1 }")
    assert tried(trained(DATA + text)).layers == "x:InnerProduct"


def test_an_inner_product_over_later_axes_alone_has_no_channels() -> None:
    text = layer("x", "InnerProduct", "data", "x", IP + "axis: 3 }") + layer("y", "BatchNorm", "x", "y")
    assert tried(trained(DATA + text)).layers == "x:InnerProduct y:Scale"


def test_weights_shared_by_name_are_folded_each_on_its_own() -> None:
    shared = 'param { name: "w" } param { name: "b" } '
    text = layer("c1", "Convolution", "data", "c1", shared + CONV + "}") + layer("bn", "BatchNorm", "c1", "y1")
    text += layer("c2", "Convolution", "data", "c2", shared + CONV + "}") + layer("y2", "ReLU", "c2", "y2")
    model = trained(DATA + text)
    model = type(model)(model.net, {**model.blobs, "c2": model.blobs["c1"]})
    done = tried(model)
    assert done.layers == "c1:Convolution c2:Convolution y2:ReLU"
    assert (done.folded.model.blobs["c1"][0] != done.folded.model.blobs["c2"][0]).any()
    assert not any(one.param for one in done.folded.model.net.layer)


@pytest.fixture(scope="module")
def columns() -> Tried:
    return tried(trained(DATA + mda("first", "data", "first", 3, ', "domain": 0') + mda("last", "data", "last", 3)))


def test_the_domain_is_the_one_that_the_layer_names_or_the_last(columns: Tried) -> None:
    model = trained(DATA + mda("first", "data", "first", 3, ', "domain": 0') + mda("last", "data", "last", 3))
    for name, domain in (("first", 0), ("last", 2)):
        _, variance, divisor = model.blobs[name]
        expected = 1 / np.sqrt(variance[domain] / divisor[domain] + 1e-5)
        np.testing.assert_allclose(columns.folded.model.blobs[name][0], expected, rtol=1e-6)


def test_what_only_training_needs_is_gone() -> None:
    fillers = 'weight_filler { type: "xavier" } bias_filler { type: "constant" }'
    conv = f"convolution_param {{ num_output: 6 kernel_size: 3 {fillers} }}"
    ave = "pooling_param { pool: AVE kernel_size: 2 stride: 2 }"
    text = layer("x", "Convolution", "data", "x", f"param {{ lr_mult: 3 }} {conv}")
    _, made, pool = tried(trained(DATA + text + layer("y", "Pooling", "x", "y", ave))).folded.model.net.layer
    assert not made.param
    assert not made.convolution_param.HasField("weight_filler")
    assert not made.convolution_param.HasField("bias_filler")
    assert pool.pooling_param.pool == PoolingParameter.AVE
