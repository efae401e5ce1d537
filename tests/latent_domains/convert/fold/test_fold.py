"""Every net of ours folds, at a size that a test can afford: without normalisation, with BN, with mDA."""

import numpy as np
import pytest
from caffe.proto.caffe_pb2 import NetParameter, PoolingParameter
from google.protobuf import text_format
from hypothesis import given, settings
from hypothesis import strategies as st

from latent_domains.common.program import ProgramError
from latent_domains.convert.fold.fold import fold, pooled_size
from latent_domains.convert.onnx.export import onnx_model
from latent_domains.experiment.experiment import make_experiment
from latent_domains.models.model import Model, forward, load
from latent_domains.models.onnx_file import Runtime
from latent_domains.nets.family import deploy_net
from tests.latent_domains.convert.fold.models import DATA, Tried, layer, trained, tried
from tests.latent_domains.nets.graphs import parse

pytestmark = pytest.mark.slow

SIZES = {"mnist": 28, "alexnet": 99, "resnet18": 64}
"""Height and width; AlexNet's inner products are narrow, too."""

DIGITS = (
    "conv1:Convolution pool1:Pooling relu1:ReLU conv2:Convolution pool2:Pooling relu2:ReLU "
    "fc3:InnerProduct relu3:ReLU fc4:InnerProduct relu4:ReLU fc5:InnerProduct prob:Softmax"
)
ALEXNET = "pool5:Pooling fc6:InnerProduct relu6:ReLU fc7:InnerProduct relu7:ReLU classifier:InnerProduct prob:Softmax"
FC7 = "relu7:ReLU classifier:InnerProduct prob:Softmax"


def folded(dataset: str, method: str, **options: object) -> Tried:
    experiment = make_experiment(dataset, method, **options)
    net, network = deploy_net(experiment).to_proto(), experiment.net.network
    for one in net.layer:
        if one.type == "Input" and network in SIZES:
            one.input_param.shape[0].dim[2:] = [SIZES[network]] * 2
        if network == "alexnet" and one.name in ("fc6", "fc7"):
            one.inner_product_param.num_output = 64
    done = tried(trained(net), rows=2)
    assert list(done.folded.heads)[-1] == "prob" and "data" in done.after
    stock = {"Input", "Convolution", "InnerProduct", "Pooling", "ReLU", "Softmax", "LRN", "Eltwise", "Scale", "Slice"}
    assert {layer.type for layer in done.folded.model.net.layer} <= stock | {"Silence", "Reshape"}
    return done


@pytest.mark.parametrize("method", ["plain", "source_only", "mda"])
@pytest.mark.parametrize(("dataset", "end"), [("digits", DIGITS), ("office31", ALEXNET), ("office31_fc7", FC7)])
def test_fold_nets_without_residual_blocks(dataset: str, end: str, method: str) -> None:
    done = folded(dataset, method)
    assert done.layers.endswith(end)
    assert done.layers.removesuffix(end) in ("", "fc7_scale:Scale ") or dataset == "office31"


@pytest.mark.parametrize(
    ("method", "geometry", "convolutions"), [("source_only", "torch", 20), ("mda", "torch", 20), ("mda", "caffe", 21)]
)
def test_fold_residual_nets(method: str, geometry: str, convolutions: int) -> None:
    done = folded("pacs", method, geometry=geometry)
    assert "Scale" not in done.layers and done.layers.count("Convolution") == convolutions
    assert ("Slice" in done.layers) == (geometry == "torch")


@pytest.mark.parametrize("dataset", ["digits", "office_caltech", "office_caltech_fc7", "pacs"])
def test_fold_latent_targets(dataset: str) -> None:
    options = {"k_target": 2} if dataset in ("digits", "pacs") else {}
    done = folded(dataset, "mda", **options)
    assert "w_target:InnerProduct" in done.layers
    assert any("the branch that predicts it stays" in note for note in done.folded.notes)
    assert set(done.folded.pairs) >= {"w_target", "prob"}


def convolution(fields: str, sides: tuple[int, int]) -> Model:
    net = f"""name: "net"
        layer {{ name: "data" type: "Input" top: "data" input_param {{ shape {{ dim: [2, 4, 9, 10] }} }} }}
        layer {{ name: "conv" type: "Convolution" bottom: "data" top: "conv"
                 convolution_param {{ num_output: 6 group: 2 bias_term: false {fields} }} }}"""
    weights = np.random.default_rng(0).normal(size=(6, 2, *sides)).astype(np.float32)
    return Model(text_format.Parse(net, NetParameter()), {"conv": [weights]})


CASES = {
    "kernel_size: 3 stride: 2 pad_end: 1": ((3, 3), [4, 4], [1, 1]),
    "kernel_size: 5 stride: 2 pad: 1 pad_end: 2": ((5, 5), [6, 6], [2, 2]),
    "kernel_size: 3 pad: 2 pad_end: 0": ((3, 3), [5, 5], [2, 2]),
    "kernel_size: [3, 2] stride: [2, 1] pad: [1, 0] pad_end: [0, 3]": ((3, 2), [4, 5], [1, 3]),
    "kernel_size: 2 dilation: 2 pad_end: 4": ((2, 2), [4, 4], [4, 4]),
    "kernel_size: 3 pad: 1 pad_end: 1": ((3, 3), [3, 3], [1, 1]),
}


@pytest.mark.parametrize("fields", CASES)
def test_fold_a_padded_convolution_is_the_same_in_stock_caffe_and_in_onnx(fields: str) -> None:
    sides, kernel, pads = CASES[fields]
    original, data = convolution(fields, sides), np.random.default_rng(1).normal(size=(2, 4, 9, 10)).astype(np.float32)
    expected, folded = forward(load(original), data)["conv"], fold(original).model
    assert list(folded.blobs["conv"][0].shape[2:]) == kernel
    np.testing.assert_allclose(forward(load(folded), data)["conv"], expected, atol=1e-5)
    made = onnx_model(original, load(original), producer="tests", about="", metadata={})
    np.testing.assert_allclose(Runtime(made.SerializeToString()).forward({"data": data})["conv"], expected, atol=1e-5)
    if "pad: 1 pad_end: 1" not in fields:
        found = folded.net.layer[-1].convolution_param
        assert not found.pad_end and (list(found.pad) or [found.pad_h, found.pad_w]) in (pads, pads[:1])
        assert list(fold(original, stock=False).model.blobs["conv"][0].shape[2:]) == list(sides)


def test_fold_a_dilated_kernel_that_cannot_grow_so_is_refused() -> None:
    with pytest.raises(ProgramError, match=r"layer conv \(Convolution\): pad_end \(1, 1\), expected pad \(0, 0\)"):
        fold(convolution("kernel_size: 3 dilation: 2 pad_end: 1", (3, 3)))


def test_fold_one_size_for_three_axes_is_said_for_each() -> None:
    """OpenCV would divide by zero."""
    data = 'layer { name: "data" type: "Input" top: "data" input_param { shape { dim: [2, 3, 5, 6, 7] } } }'
    sizes = "convolution_param { num_output: 4 kernel_size: 2 pad: [1, 0, 2] }"
    net = data + layer("conv", "Convolution", "data", "conv", sizes) + layer("bn", "BatchNorm", "conv", "bn")
    done = tried(trained(net), rows=2)
    found = done.folded.model.net.layer[-1].convolution_param
    assert (list(found.kernel_size), list(found.pad)) == ([2, 2, 2], [1, 0, 2])


def pool(fields: str, tops: str = "pool") -> str:
    return layer("pool", "Pooling", "data", tops, f"pooling_param {{ {fields} }}")


ROWS, COLUMNS = (f" pool_{axis}:Slice silence_pool_{axis}_rest:Silence" for axis in ("rows", "columns"))

CROPPED = {  # of an input of 7×6
    "kernel_size: 3 stride: 2 pad: 1": COLUMNS,
    "kernel_size: 2 stride: 2": ROWS,
    "kernel_h: 2 kernel_w: 3 stride_h: 2 stride_w: 2": ROWS + COLUMNS,
    "kernel_size: 3 stride: 1 pad: 1": "",
    "global_pooling: true": "",
    # a pad on one axis clips the other too
    "kernel_h: 1 kernel_w: 2 stride_h: 3 stride_w: 1 pad_h: 0 pad_w: 1": "",
}


@pytest.mark.parametrize("kind", ["MAX", "AVE"])
@pytest.mark.parametrize("fields", CROPPED)
def test_fold_floor_pools_are_cropped_where_the_sizes_differ(fields: str, kind: str) -> None:
    text = DATA + pool(f"pool: {kind} {fields} round_mode: FLOOR") + layer("relu", "ReLU", "pool", "pool")
    done = tried(trained(text + layer("end", "Power", "pool", "end")), rows=5)
    assert done.layers == f"pool:Pooling{CROPPED[fields]} relu:ReLU end:Power"
    assert done.folded.pairs["pool"] == "pool"
    assert not any(one.pooling_param.HasField("round_mode") for one in done.folded.model.net.layer)


def test_fold_a_mask_of_a_floor_pool_stays_with_it() -> None:
    done = tried(trained(DATA + pool("kernel_size: 2 stride: 2 round_mode: FLOOR", "pool mask")))
    assert done.layers == "pool:Pooling"
    assert done.folded.model.net.layer[1].pooling_param.round_mode == PoolingParameter.FLOOR


def two(least: int, most: int) -> st.SearchStrategy[tuple[int, int]]:
    """For height and width."""
    return st.tuples(st.integers(least, most), st.integers(least, most))


@settings(max_examples=100, deadline=None)
@given(two(3, 20), two(1, 3), two(1, 4), st.data())
def test_pooled_size_sizes_are_caffes(
    sides: tuple[int, int], kernel: tuple[int, int], stride: tuple[int, int], data: st.DataObject
) -> None:
    pad = [data.draw(st.integers(0, size - 1)) for size in kernel]
    fields = " ".join(
        f"{name}_{axis}: {values[i]}"
        for name, values in (("kernel", kernel), ("stride", stride), ("pad", pad))
        for i, axis in enumerate("hw")
    )
    shape = f"input_param {{ shape {{ dim: 1 dim: 1 dim: {sides[0]} dim: {sides[1]} }} }}"
    net = load(Model(parse(layer("data", "Input", "", "data", shape) + pool(fields)), {}))
    found = pooled_size(text_format.Parse(fields, PoolingParameter()), sides)
    assert tuple(found) == net.blobs["pool"].data.shape[2:]
