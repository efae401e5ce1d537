"""Per-channel maps go where they can: into the layer before them, else into one Scale; layers that do nothing go."""

import re

import numpy as np
import pytest
from caffe.proto.caffe_pb2 import PoolingParameter

from latent_domains.common.program import ProgramError
from latent_domains.convert.fold.fold import fold
from latent_domains.models.model import load
from tests.latent_domains.convert.fold.models import DATA, layer, mda, trained, tried

CONV = "convolution_param { num_output: 6 kernel_size: 3 "
IP = "inner_product_param { num_output: 5 "
BIAS = "scale_param { bias_term: true }"

CONVOLUTIONS = {
    "bias": layer("x", "Convolution", "data", "x", CONV + "}"),
    "no bias": layer("x", "Convolution", "data", "x", CONV + "bias_term: false }"),
    "groups": layer("x", "Convolution", "data", "x", CONV + "group: 2 pad: 1 stride: 2 }"),
    "dilation": layer("x", "Convolution", "data", "x", CONV + "dilation: 2 bias_term: false }"),
    "deconvolution": layer("x", "Deconvolution", "data", "x", CONV + "stride: 2 }"),
    "deconvolution in groups": layer("x", "Deconvolution", "data", "x", CONV + "group: 2 bias_term: false }"),
    "inner product": layer("x", "InnerProduct", "data", "x", IP + "}"),
    "transposed": layer("x", "InnerProduct", "data", "x", IP + "transpose: true bias_term: false }"),
}

CHAINS = {
    "bn scale": layer("bn", "BatchNorm", "x", "bn") + layer("scale", "Scale", "bn", "y", BIAS),
    "bias": layer("bias", "Bias", "x", "y"),
    "mda scale": mda("mda", "x", "mda") + layer("scale", "Scale", "mda", "y"),
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


X, BN, MDA = CONVOLUTIONS["bias"], layer("bn", "BatchNorm", "x", "bn"), mda("mda", "data", "mda")
FC = layer("fc", "InnerProduct", "data", "fc", "inner_product_param { num_output: 3 }")
DROP, END = layer("drop", "Dropout", "fc", "drop"), layer("end", "Softmax", "fc", "end")
BATCH = "batch_norm_param { use_global_stats: false }"
POOL = layer("x", "Pooling", "data", "x", "pooling_param { kernel_size: 2 }")

LAYERS = {
    "a map of the input": (MDA + layer("scale", "Scale", "mda", "y", BIAS), "scale:Scale"),
    "a map of a pool": (POOL + mda("mda", "x", "mda") + layer("s", "Scale", "mda", "y"), "x:Pooling s:Scale"),
    "BN alone": (layer("bn", "BatchNorm", "data", "y"), "bn:Scale"),
    "a map beside another reader": (X + BN + layer("other", "ReLU", "x", "o"), "x:Convolution bn:Scale other:ReLU"),
    "a part that another layer reads": (
        X + BN + layer("s", "Scale", "bn", "s", BIAS) + layer("o", "ReLU", "bn", "o"),
        "x:Convolution s:Scale o:ReLU",
    ),
    "a map of the input that another layer reads": (
        MDA + layer("s", "Scale", "mda", "s", BIAS) + layer("o", "ReLU", "mda", "o"),
        "mda:Scale s:Scale o:ReLU",
    ),
    "both sides of an addition": (
        X
        + BN
        + layer("x2", "Convolution", "data", "x2", CONV + "}")
        + mda("mda", "x2", "mda")
        # each is folded for itself
        + layer("sum", "Eltwise", "bn mda", "sum"),
        "x:Convolution x2:Convolution sum:Eltwise",
    ),
    "axes from behind": (
        layer("x", "InnerProduct", "data", "x", IP + "axis: -3 }")
        + layer("y", "Scale", "x", "y", "scale_param { axis: -1 }"),
        "x:InnerProduct",
    ),
    "an inner product without channels": (
        layer("x", "InnerProduct", "data", "x", IP + "axis: 3 }") + layer("y", "BatchNorm", "x", "y"),
        "x:InnerProduct y:Scale",
    ),
    "all axes": (X + layer("y", "Scale", "x", "y", "scale_param { num_axes: -1 }"), "x:Convolution y:Scale"),
    "another axis": (X + layer("y", "Scale", "x", "y", "scale_param { axis: 2 }"), "x:Convolution y:Scale"),
    "one value": (X + layer("y", "Scale", "x", "y", "scale_param { num_axes: 0 }"), "x:Convolution y:Scale"),
    "a bias on another axis": (X + layer("y", "Bias", "x", "y", "bias_param { axis: -1 }"), "x:Convolution y:Bias"),
    "the batch's statistics": (
        X + layer("y", "BatchNorm", "x", "y", BATCH),
        "x:Convolution y:BatchNorm",
    ),
    "Dropout in place": (FC + layer("drop", "Dropout", "fc", "fc") + END, "fc:InnerProduct end:Softmax"),
    "Dropout": (FC + DROP + layer("end", "Softmax", "drop", "end"), "fc:InnerProduct end:Softmax"),
    "Dropout beside another reader": (
        FC + DROP + layer("end", "Softmax", "drop", "end") + layer("other", "ReLU", "fc", "other"),
        "fc:InnerProduct end:Softmax other:ReLU",
    ),
    "Dropout at the end": (FC + DROP, "fc:InnerProduct drop:Dropout"),
    "Dropout that makes one of two outputs": (
        FC + DROP + layer("other", "ReLU", "fc", "other"),
        "fc:InnerProduct drop:Dropout other:ReLU",
    ),
    "Dropout before BN": (FC + DROP + layer("bn", "BatchNorm", "drop", "bn"), "fc:InnerProduct"),
    "Dropout of memory that another layer reads": (
        FC
        + layer("flat", "Flatten", "fc", "flat")
        + layer("drop", "Dropout", "flat", "x")
        # relu must not overwrite fc
        + layer("relu", "ReLU", "x", "x")
        + layer("end", "Softmax", "x", "end")
        + layer("other", "TanH", "fc", "other"),
        "fc:InnerProduct flat:Flatten relu:ReLU end:Softmax other:TanH",
    ),
    "Split": (
        FC
        + layer("split", "Split", "fc", "a b")
        + layer("relu", "ReLU", "a", "c")
        + layer("p", "Softmax", "b", "p")
        # its readers stay apart
        + layer("sum", "Eltwise", "c p", "sum"),
        "fc:InnerProduct relu:ReLU p:Softmax sum:Eltwise",
    ),
    "Split at the end": (
        FC + layer("split", "Split", "fc", "a b") + layer("relu", "ReLU", "a", "c"),
        "fc:InnerProduct split:Split relu:ReLU",
    ),
    "a branch that was silenced": (
        FC
        + layer("side", "InnerProduct", "data", "side", "inner_product_param { num_output: 2 }")
        # goes
        + layer("relu", "ReLU", "side", "side")
        + 'layer { name: "quiet" type: "Silence" bottom: "side" }',
        "fc:InnerProduct",
    ),
    "half of a layer that was silenced": (
        layer("cut", "Slice", "data", "a b", "slice_param { axis: 1 slice_point: 1 }")
        + 'layer { name: "quiet" type: "Silence" bottom: "b" }',
        "cut:Slice silence_b:Silence",
    ),
}


@pytest.mark.parametrize(("text", "expected"), LAYERS.values(), ids=LAYERS)
def test_affine_layers_of_the_folded_net(text: str, expected: str) -> None:
    assert tried(trained(DATA + text)).layers == expected


def test_affine_an_inner_product_that_nothing_follows_is_written_untransposed() -> None:
    """OpenCV does not read ``transpose``."""
    done = tried(trained(DATA + CONVOLUTIONS["transposed"] + layer("p", "Softmax", "x", "p")))
    (made,) = [one for one in done.folded.model.net.layer if one.name == "x"]
    assert not made.inner_product_param.transpose
    assert done.folded.model.blobs["x"][0].shape == (5, 4 * 7 * 6)


@pytest.mark.parametrize(("kind", "count"), [("Scale", 1), ("BatchNorm", 2)])
def test_affine_a_bias_that_stays_zero_is_left_out(kind: str, count: int) -> None:
    model = trained(DATA + CONVOLUTIONS["no bias"] + layer("y", kind, "x", "y"))
    (blobs,) = tried(model).folded.model.blobs.values()
    assert len(blobs) == count


def test_affine_scale_and_bias_of_the_input() -> None:
    """OpenCV knows no Bias."""
    model = trained(DATA + layer("s", "Scale", "data", "y", BIAS) + layer("b", "Bias", "data", "z"))
    done = tried(model)
    assert done.layers == "s:Scale b:Scale"
    for found, expected in zip(done.folded.model.blobs["s"], model.blobs["s"], strict=True):
        np.testing.assert_array_equal(found, expected)
    ones, offsets = done.folded.model.blobs["b"]
    assert (ones == 1).all()
    np.testing.assert_array_equal(offsets, model.blobs["b"][0])


def test_affine_weights_shared_by_name_are_folded_each_on_its_own() -> None:
    shared = 'param { name: "w" } param { name: "b" } '
    text = layer("c1", "Convolution", "data", "c1", shared + CONV + "}") + layer("bn", "BatchNorm", "c1", "y1")
    text += layer("c2", "Convolution", "data", "c2", shared + CONV + "}") + layer("y2", "ReLU", "c2", "y2")
    model = trained(DATA + text)
    model = type(model)(model.net, {**model.blobs, "c2": model.blobs["c1"]})
    done = tried(model)
    assert done.layers == "c1:Convolution c2:Convolution y2:ReLU"
    assert (done.folded.model.blobs["c1"][0] != done.folded.model.blobs["c2"][0]).any()
    assert not any(one.param for one in done.folded.model.net.layer)


def test_affine_what_only_training_needs_is_gone() -> None:
    fillers = 'weight_filler { type: "xavier" } bias_filler { type: "constant" }'
    conv = f"convolution_param {{ num_output: 6 kernel_size: 3 {fillers} }}"
    ave = "pooling_param { pool: AVE kernel_size: 2 stride: 2 }"
    text = layer("x", "Convolution", "data", "x", f"param {{ lr_mult: 3 }} {conv}")
    _, made, pool = tried(trained(DATA + text + layer("y", "Pooling", "x", "y", ave))).folded.model.net.layer
    assert not made.param
    assert not made.convolution_param.HasField("weight_filler")
    assert not made.convolution_param.HasField("bias_filler")
    assert pool.pooling_param.pool == PoolingParameter.AVE


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
def test_affine_what_one_pass_leaves_to_the_next_is_not_overwritten(lent: str) -> None:
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


def test_affine_an_input_that_the_net_itself_overwrites_still_is() -> None:
    text = layer("drop", "Dropout", "data", "data") + layer("relu", "ReLU", "data", "data") + FC
    relu = tried(trained(DATA + text)).folded.model.net.layer[1]
    assert (relu.type, *relu.bottom, *relu.top) == ("ReLU", "data", "data")


def test_affine_statistics_of_the_batch_are_said() -> None:
    norms = [layer(name, "BatchNorm", "data", name, more) for name, more in (("a", BATCH), ("b", BATCH), ("c", ""))]
    (note,) = tried(trained(DATA + "".join(norms)), rows=2).folded.notes
    assert note.startswith("a, b: not folded, use_global_stats: false takes the statistics of each batch")


NORMS = [layer("norm", "BatchNorm", "data", "norm"), mda("norm", "data", "norm", 2)]


@pytest.mark.parametrize("text", NORMS)
def test_affine_divisor_zero_is_mean_and_variance_zero_and_is_said(text: str) -> None:
    model = trained(DATA + text)
    model.blobs["norm"][2][...] = 0
    done = tried(model)
    factor, offset = done.folded.model.blobs["norm"]
    np.testing.assert_allclose(factor, 1e-5**-0.5, rtol=1e-5)
    assert not offset.any()
    (note,) = done.folded.notes
    whose = "norm: no running statistics " + ("of domain 1 " if "MDA" in text else "") + "(divisor 0)"
    assert note.startswith(whose) and note.endswith("was the model trained?")


@pytest.mark.parametrize(("more", "domain"), [(', "eps": 0.5', 2), (', "eps": 0.5, "domain": 0', 0)])
def test_affine_domain_eps_and_divisor_count(more: str, domain: int) -> None:
    """By default the domain is the last one. The others may be empty."""
    model = trained(DATA + mda("norm", "data", "norm", 3, more), divisor=7)
    model.blobs["norm"][2][1] = 0
    done = tried(model)
    factor, offset = done.folded.model.blobs["norm"]
    mean, variance = model.blobs["norm"][0][domain] / 7, model.blobs["norm"][1][domain] / 7
    np.testing.assert_allclose(factor, (variance + 0.5) ** -0.5, rtol=1e-6)
    np.testing.assert_allclose(offset, -mean * (variance + 0.5) ** -0.5, rtol=1e-5)
    assert done.folded.notes == ()


@pytest.mark.parametrize("text", NORMS)
def test_fold_impossible_variances_are_refused(text: str) -> None:
    model = trained(DATA + text, divisor=1)
    model.blobs["norm"][1][..., 2] = -3
    with pytest.raises(ProgramError, match="layer norm: its smallest variance is -3, expected at least 0"):
        fold(model)


SCALE = "scale_param { bias_term: true }"
CONV_LAYER = layer(
    "x", "Convolution", "data", "x", "convolution_param { num_output: 6 kernel_size: 3 bias_term: false }"
)
POOLED = layer("c", "Convolution", "data", "c", "convolution_param { num_output: 6 kernel_size: 3 }") + layer(
    "x", "Pooling", "c", "x", "pooling_param { pool: AVE global_pooling: true }"
)
IP_LAYER = layer("x", "InnerProduct", "data", "x", "inner_product_param { num_output: 6 }")


def assignment(name: str, bottom: str, top: str, domains: int, first: int) -> str:
    python = (
        'python_param { module: "caffe_layers" layer: "DomainAssignmentLayer" '
        f"""param_str: '{{"num_domains": {domains}, "first": {first}}}' }}"""
    )
    return layer(name, "Python", bottom, top, python)


def branch(group: int, domains: int = 4, first: int = 2) -> str:
    logits = layer("logits", "InnerProduct", "data", "logits", f"inner_product_param {{ num_output: {group} }}")
    return logits + assignment("w", "logits", "w", domains, first)


@pytest.mark.parametrize("x", [CONV_LAYER, IP_LAYER, POOLED])
@pytest.mark.parametrize("group", [2, 4])
def test_affine_latent_targets_keep_their_branch(x: str, group: int) -> None:
    text = x + branch(group, 4, 4 - group) + mda("mda", "x w", "mda", 4) + layer("scale", "Scale", "mda", "y", SCALE)
    done = tried(trained(DATA + text + layer("relu", "ReLU", "y", "y")))
    assert "logits:InnerProduct w_softmax:Softmax w:InnerProduct" in done.layers
    assert done.layers.endswith("mda:Eltwise relu:ReLU")
    assert "scale:" not in done.layers
    (note,) = done.folded.notes
    assert note.startswith("several target domains: mda need") and note.endswith("so the branch that predicts it stays")
    w = done.before["w"]
    assert done.folded.pairs["w"] == "w" and (w[:, : 4 - group] == 0).all() and w.std() > 0.01


def test_affine_every_row_has_the_map_of_its_own_domains() -> None:
    """By the layer's formula, not by the layer."""
    model = trained(DATA + CONV_LAYER + branch(2) + mda("mda", "x w", "y", 4))
    done = tried(model)
    mean, variance, divisor = (blob.astype(np.float64) for blob in model.blobs["mda"])
    mean, variance = mean / divisor[:, None], variance / divisor[:, None]
    x, w = done.before["x"], done.before["w"]
    expected = sum(
        w[:, d].reshape(-1, 1, 1, 1)
        * (x - mean[d].reshape(1, -1, 1, 1))
        / np.sqrt(variance[d].reshape(1, -1, 1, 1) + 1e-5)
        for d in range(4)
    )
    np.testing.assert_allclose(done.after["y"], expected, rtol=1e-4, atol=1e-5)


def test_affine_several_normalisations_share_one_assignment() -> None:
    text = CONV_LAYER + branch(2) + mda("mda1", "x w", "m1", 4) + layer("s1", "Scale", "m1", "s1", SCALE)
    text += layer("fc", "InnerProduct", "s1", "fc", "inner_product_param { num_output: 3 }")
    text += (
        mda("mda2", "fc w", "m2", 4) + layer("bn", "BatchNorm", "m2", "m2") + layer("s2", "Scale", "m2", "m2", SCALE)
    )
    done = tried(trained(DATA + text))
    assert done.layers.count("Softmax") == 1 and "Batch" not in done.layers
    assert "mda1, mda2 need" in done.folded.notes[0]


def test_affine_one_assigned_normalisation_after_another() -> None:
    text = IP_LAYER + branch(2) + mda("mda1", "x w", "m1", 4) + mda("mda2", "m1 w", "y", 4)
    assert tried(trained(DATA + text)).layers.endswith(
        "mda1:Eltwise mda2_factor:InnerProduct mda2_offset:InnerProduct mda2_scaled:Scale mda2_ones:Scale "
        "mda2_offset_spread:Scale mda2:Eltwise"
    )


def test_affine_empty_statistics_of_domains_that_no_row_is_of_do_not_matter() -> None:
    model = trained(DATA + IP_LAYER + branch(2) + mda("mda", "x w", "y", 4))
    for blob in model.blobs["mda"]:
        blob[:2] = 0
    assert not any("divisor" in note for note in tried(model).folded.notes)
    for blob in model.blobs["mda"]:
        blob[2] = 0
    assert any("of domain 2 (divisor 0)" in note for note in tried(model).folded.notes)


def test_affine_one_known_domain_takes_the_branch_away() -> None:
    constant = 'dummy_data_param { shape { dim: 3 dim: 1 } data_filler { type: "constant" value: 0 } }'
    text = CONV_LAYER + layer("zero", "DummyData", "", "zero", constant) + assignment("w", "zero", "w", 4, 1)
    text += mda("mda", "x w", "mda", 4) + layer("scale", "Scale", "mda", "y", SCALE)
    done = tried(trained(DATA.replace("dim: 1 ", "dim: 3 ") + text))
    assert done.layers == "x:Convolution"
    assert done.folded.notes == ()


def test_affine_an_assignment_that_passes_through_other_layers() -> None:
    """Rows of w sliced and joined: nothing is known of their domains then, so all columns count."""
    text = branch(2) + layer("cut", "Slice", "w", "w1 w2", "slice_param { axis: 0 slice_point: 1 }")
    text += layer("joined", "Concat", "w1 w2", "w3", "concat_param { axis: 0 }") + mda("mda", "data w3", "y", 4)
    done = tried(trained(DATA.replace("dim: 1 ", "dim: 3 ") + text))
    assert "cut:Slice joined:Concat" in done.layers and done.layers.endswith("mda:Eltwise")


def test_affine_the_assignment_itself_may_be_an_output() -> None:
    done = tried(trained(DATA + branch(1, 2, 1)))
    np.testing.assert_allclose(done.after["w"], [[0, 1]] * 3)


def test_fold_python_layers_that_stay_are_refused_by_name() -> None:
    batch = mda("mda", "data", "mda", 2, ', "use_global_stats": false')
    expected = r"cannot do the work of: mda \(MDALayer: it normalises by the batch's statistics"
    with pytest.raises(ProgramError, match=expected):
        fold(trained(DATA + batch))
    labels = layer("label", "Input", "", "label", "input_param { shape { dim: 1 } }")
    logits = layer("logits", "InnerProduct", "data", "logits", "inner_product_param { num_output: 2 }")
    text = labels + logits + assignment("w", "logits label", "w", 4, 1)
    entropy = 'python_param { module: "caffe_layers" layer: "EntropyLossLayer" }'
    text += layer("h", "Python", "logits", "h", entropy)
    with pytest.raises(
        ProgramError, match=r"w \(DomainAssignmentLayer: it reads domain labels\); h \(EntropyLossLayer\)"
    ):
        fold(trained(DATA + text))
