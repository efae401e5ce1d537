"""Whole nets: ours, by every blob; names, free batches, several outputs; what is refused as a whole."""

from pathlib import Path

import cv2
import numpy as np
import onnx
import pytest
from caffe import NetSpec, layers, params
from caffe.coord_map import crop
from caffe.net_spec import Top
from caffe.proto.caffe_pb2 import NetParameter

from latent_domains.common.program import ROOT
from latent_domains.convert.fold.fold import fold
from latent_domains.convert.fold.verify import compare_nets, compare_opencv
from latent_domains.convert.onnx.export import BATCH, check_layers
from latent_domains.convert.onnx.layer import IR_VERSION, OPSET, Refused
from latent_domains.experiment.experiment import make_experiment
from latent_domains.models.compare import worst
from latent_domains.models.model import Array, Model, forward, load, write_model
from latent_domains.models.onnx_file import Runtime
from latent_domains.nets.family import deploy_net
from tests.latent_domains.convert.onnx.nets import (
    assert_agrees,
    compare_runtime,
    compared,
    exported,
    random_model,
    with_input,
)
from tests.latent_domains.nets.graphs import parse

OURS = {
    # Odd sizes, at which rounding up and rounding down part ways.
    "mnist plain": ("digits", "plain", "torch", 28),
    "mnist": ("digits", "source_only", "torch", 28),
    "alexnet": ("office31", "plain", "torch", 71),
    "alexnet with BatchNorm": ("office31", "source_only", "torch", 67),
    "resnet18, Torch's pooling": ("pacs", "source_only", "torch", 51),
    "resnet18, Caffe's pooling": ("pacs", "source_only", "caffe", 49),
}


def ours(dataset: str, method: str, geometry: str, size: int) -> NetParameter:
    options = {"geometry": geometry} if dataset == "pacs" else {}
    net = deploy_net(make_experiment(dataset, method, **options)).to_proto()
    net.layer[0].input_param.shape[0].dim[2:] = [size, size]
    for layer in net.layer:
        if layer.name in ("fc6", "fc7"):
            layer.inner_product_param.num_output = 64
    return net


@pytest.mark.parametrize("which", OURS)
def test_export_our_nets(which: str) -> None:
    net = ours(*OURS[which])
    blobs = {top for layer in net.layer if layer.type != "Input" for top in layer.top}
    assert_agrees(str(net), *blobs)


NET = """
name: "small"
layer { name: "in" type: "Input" top: "x" input_param { shape { dim: 4 dim: 3 dim: 6 dim: 5 } } }
layer { name: "a/conv" type: "Convolution" bottom: "x" top: "a"
        convolution_param { num_output: 3 kernel_size: 3 pad: 1 } }
layer { name: "a/bn" type: "BatchNorm" bottom: "a" top: "a" }
layer { name: "a/scale" type: "Scale" bottom: "a" top: "a" scale_param { bias_term: true } }
layer { name: "a/relu" type: "ReLU" bottom: "a" top: "a" }
layer { name: "sum" type: "Eltwise" bottom: "a" bottom: "x" top: "sum" }
layer { name: "fc" type: "InnerProduct" bottom: "sum" top: "fc" inner_product_param { num_output: 4 } }
layer { name: "prob" type: "Softmax" bottom: "fc" top: "prob" }
layer { name: "pool" type: "Pooling" bottom: "a" top: "pool" pooling_param { pool: MAX kernel_size: 2 stride: 2 } }
"""


def test_export_names_and_shapes_are_caffes() -> None:
    made = exported(random_model(parse(NET)))

    def shapes(values: list[onnx.ValueInfoProto]) -> dict[str, list[str | int]]:
        return {v.name: [d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim] for v in values}

    assert shapes(made.graph.input) == {"x": [BATCH, 3, 6, 5]}
    assert shapes(made.graph.output) == {"prob": [BATCH, 4], "pool": [BATCH, 3, 3, 3]}
    nodes = {node.name: node for node in made.graph.node}
    assert {"a/conv", "a/bn", "a/scale", "a/relu", "sum", "fc", "prob", "pool"} <= set(nodes)
    assert list(nodes["a/relu"].output) == ["a"] and list(nodes["a/conv"].output) != ["a"]
    assert made.graph.name == "small" and made.ir_version == IR_VERSION
    assert [(entry.domain, entry.version) for entry in made.opset_import] == [("", OPSET)]


def test_export_any_batch_goes_through() -> None:
    model = random_model(parse(NET))
    runtime, net = Runtime(exported(model).SerializeToString()), load(model)
    for rows in (1, 2, 7):
        batch = {"x": np.random.default_rng(rows).normal(size=(rows, 3, 6, 5)).astype(np.float32)}
        expected = forward(net, batch)
        outputs = runtime.forward(batch)
        assert set(outputs) == {"prob", "pool"}
        for name, found in outputs.items():
            assert found.shape[0] == rows
            np.testing.assert_allclose(found, expected[name], rtol=1e-4, atol=1e-6)


def test_export_inputs_named_by_the_net_itself() -> None:
    text = """input: "data" input_shape { dim: 10 dim: 3 dim: 5 dim: 5 }
              layer { name: "r" type: "ReLU" bottom: "data" top: "r" }"""
    assert_agrees(text, "r")


def test_export_an_input_that_is_changed_in_place_is_refused() -> None:
    with pytest.raises(Refused, match=r"^layer r \(ReLU\): changes the input data in place, expected a top of another"):
        compared(
            with_input(
                """layer { name: "r" type: "ReLU" bottom: "data" top: "data" }
                   layer { name: "s" type: "Softmax" bottom: "data" top: "s" }""",
                3,
            )
        )


def test_export_names_that_meet_are_told_apart() -> None:
    text = """layer { name: "a" type: "InnerProduct" bottom: "data" top: "a/flatten"
                      inner_product_param { num_output: 2 } }
              layer { name: "b" type: "InnerProduct" bottom: "data" top: "a/weight"
                      inner_product_param { num_output: 2 } }
              layer { name: "c" type: "Eltwise" bottom: "a/flatten" bottom: "a/weight" top: "c" }"""
    assert_agrees(with_input(text, 3, 2, 2), "a/flatten", "a/weight", "c")


LAYER = 'layer {{ name: "a" bottom: "data" top: "a" {} }}'
REFUSED = {
    'type: "Python" python_param { module: "caffe_layers" layer: "MDALayer" }': (
        r"layer a \(Python\): runs caffe_layers\.MDALayer; expected stock layers: fold it first: python -m tools\.exp"
    ),
    'type: "SoftmaxWithLoss"': r"layer a \(SoftmaxWithLoss\): expected a deploy net",
    'type: "Data"': r"layer a \(Data\): expected a deploy net",
    'type: "Accuracy"': r"layer a \(Accuracy\): expected a deploy net",
    'type: "Embed"': r"layer a \(Embed\): it has no counterpart here, expected one of ",
}


@pytest.mark.parametrize("rest", REFUSED)
def test_check_layers_layers_refused_by_type(rest: str) -> None:
    with pytest.raises(Refused, match=f"^{REFUSED[rest]}"):
        check_layers(parse(LAYER.format(rest)))


def test_check_layers_the_page_says_which_types_are_written() -> None:
    with pytest.raises(Refused) as error:
        check_layers(parse(LAYER.format('type: "Embed"')))
    _, types = str(error.value).split("expected one of ")
    assert f" {types}. " in " ".join((ROOT / "docs/converting.md").read_text().split())


@pytest.mark.parametrize("name", ["", 'name: "same"'])
def test_export_layers_without_parameters_may_have_one_name_or_none(name: str) -> None:
    text = f"""layer {{ name: "a" type: "Scale" bottom: "data" top: "a" }}
               layer {{ {name} type: "ReLU" bottom: "a" top: "a" }}
               layer {{ {name} type: "Power" bottom: "a" top: "b" power_param {{ shift: -0.5 }} }}
               layer {{ {name} type: "ReLU" bottom: "b" top: "b" }}"""
    assert_agrees(with_input(text, 3), "a", "b")


def test_export_other_inputs_and_outputs_are_refused() -> None:
    text = """layer { name: "in" type: "Input" top: "x" top: "y"
                      input_param { shape { dim: 2 dim: 3 } shape { dim: 2 dim: 4 } } }
              layer { name: "r" type: "ReLU" bottom: "x" top: "r" }"""
    with pytest.raises(Refused, match="its inputs are x 2×3, y 2×4, expected a single one"):
        compared(text)
    with pytest.raises(Refused, match="its inputs are data 2, expected a single one, with the batch as the first"):
        compared(with_input('layer { name: "r" type: "ReLU" bottom: "data" top: "r" }'))
    with pytest.raises(Refused, match="its inputs are none"):
        compared('name: "empty"')
    with pytest.raises(Refused, match="no output, expected a deploy net"):
        compared(with_input("", 3))


CLASSES = 21


def fcn8s(height: int, width: int, *, divided: int = 1) -> NetParameter:
    """The published net for VOC, for images of a size; with ``divided``, so many times fewer channels in the trunk.

    On VGG-16's trunk, whose first padding is 100, scores are upsampled by 2, 2 and 8 and meet those of pool4 and pool3.
    Caffe works out the offsets of the crops.
    """
    net = NetSpec()
    net.data = layers.Input(shape={"dim": [1, 3, height, width]})
    x = net.data
    for block, (number, channels) in enumerate([(2, 64), (2, 128), (3, 256), (3, 512), (3, 512)], 1):
        for i in range(1, number + 1):
            x = _conv_relu(net, x, f"{block}_{i}", channels // divided, 3, 100 if x is net.data else 1)
        net[f"pool{block}"] = x = layers.Pooling(x, pool=params.Pooling.MAX, kernel_size=2, stride=2)
    x = _conv_relu(net, x, "6", 4096 // divided, 7, 0, name="fc6")
    x = _conv_relu(net, x, "7", 4096 // divided, 1, 0, name="fc7")
    net.score_fr = layers.Convolution(x, num_output=CLASSES, kernel_size=1, pad=0)
    net.upscore2 = _upsampled(net.score_fr, 2)
    for pool, upscore, made, factor in ((4, "upscore2", "upscore_pool4", 2), (3, "upscore_pool4", "upscore8", 8)):
        score = f"score_pool{pool}"
        net[score] = layers.Convolution(net[f"pool{pool}"], num_output=CLASSES, kernel_size=1, pad=0)
        net[f"{score}c"] = crop(net[score], net[upscore])
        net[f"fuse_pool{pool}"] = layers.Eltwise(net[upscore], net[f"{score}c"], operation=params.Eltwise.SUM)
        net[made] = _upsampled(net[f"fuse_pool{pool}"], factor)
    net.score = crop(net.upscore8, net.data)
    return net.to_proto()


def _conv_relu(net: NetSpec, x: Top, which: str, channels: int, kernel: int, pad: int, name: str = "") -> Top:
    conv = layers.Convolution(x, num_output=channels, kernel_size=kernel, pad=pad, stride=1)
    net[name or f"conv{which}"] = conv
    net[f"relu{which}"] = relu = layers.ReLU(conv, in_place=True)
    return relu


def _upsampled(x: Top, factor: int) -> Top:
    param = {"num_output": CLASSES, "kernel_size": 2 * factor, "stride": factor, "bias_term": False}
    return layers.Deconvolution(x, convolution_param=param)


def bilinear(size: int) -> Array:
    """The kernel of ``size``×``size`` that upsamples by half its size."""
    line = 1 - np.abs(np.arange(size) - (size - 1) / 2) / (size / 2)
    return np.outer(line, line).astype(np.float32)


@pytest.fixture(scope="module")
def model() -> Model:
    net = fcn8s(33, 40, divided=16)
    made = random_model(net)
    for name in ("upscore2", "upscore_pool4", "upscore8"):
        (weights,) = made.blobs[name]
        weights[...] = np.eye(CLASSES)[:, :, None, None] * bilinear(weights.shape[-1])
    return made


@pytest.fixture(scope="module")
def classes(model: Model) -> Model:
    """The net with the class of each pixel."""
    net = NetParameter(layer=model.net.layer)
    net.layer.add(name="class", type="ArgMax", bottom=["score"], top=["class"], argmax_param={"axis": 1})
    return Model(net, model.blobs)


X = np.random.default_rng(0).integers(-128, 128, (2, 3, 33, 40)).astype(np.float32)


def test_export_offsets_and_layers_are_the_published_ones() -> None:
    net = fcn8s(500, 500)
    crops = {layer.name: list(layer.crop_param.offset) for layer in net.layer if layer.type == "Crop"}
    assert crops == {"score_pool4c": [5], "score_pool3c": [9], "score": [31]}
    assert len(net.layer) == 47


def test_export_onnx_runtime_agrees_in_every_blob(classes: Model) -> None:
    rows = {row.name: row.relative for row in compare_runtime(classes)}
    assert {top for layer in classes.net.layer[1:] for top in layer.top} <= set(rows)
    assert max(rows.values()) <= 1e-5, rows


def test_export_opencv_agrees_on_the_onnx_file(model: Model, classes: Model) -> None:
    expected = forward(load(classes), X)

    def found(model: Model) -> Array:
        opencv = cv2.dnn.readNetFromONNX(np.frombuffer(exported(model).SerializeToString(), np.uint8))
        opencv.setInput(X)
        return opencv.forward()

    assert expected["score"].shape == (2, CLASSES, 33, 40) and len(np.unique(expected["class"])) > 1
    np.testing.assert_allclose(found(model), expected["score"], atol=1e-5 * np.abs(expected["score"]).max())
    assert (found(classes) == expected["class"]).mean() > 0.999


def test_export_opencv_agrees_on_caffes_own_files(model: Model, tmp_path: Path) -> None:
    folded = fold(model)
    files = write_model(folded.model, tmp_path / "fcn", about="", force=False)
    rows, expected = compare_nets(load(model), load(folded.model), folded, [X])
    agreement = compare_opencv(*files, folded, [X], expected)
    assert worst(rows).relative == 0 and agreement.furthest.relative < 1e-5
    assert (agreement.same, agreement.inputs) == (2, 2)
