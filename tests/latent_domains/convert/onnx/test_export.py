"""Whole nets: ours, by every blob; names, free batches, several outputs; what is refused as a whole."""

import numpy as np
import onnx
import pytest
from caffe.proto.caffe_pb2 import NetParameter

from latent_domains.common.program import ROOT
from latent_domains.convert.onnx.export import BATCH, check_layers
from latent_domains.convert.onnx.layer import IR_VERSION, OPSET, Refused
from latent_domains.experiment.experiment import make_experiment
from latent_domains.models.model import forward, load
from latent_domains.models.onnx_file import Runtime
from latent_domains.nets.family import deploy_net
from tests.latent_domains.convert.onnx.nets import assert_agrees, compared, exported, random_model, with_input
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
def test_our_nets(which: str) -> None:
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


def test_names_and_shapes_are_caffes() -> None:
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


def test_any_batch_goes_through() -> None:
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


def test_inputs_named_by_the_net_itself() -> None:
    text = """input: "data" input_shape { dim: 10 dim: 3 dim: 5 dim: 5 }
              layer { name: "r" type: "ReLU" bottom: "data" top: "r" }"""
    assert_agrees(text, "r")


def test_an_input_that_is_changed_in_place_is_refused() -> None:
    with pytest.raises(Refused, match=r"^layer r \(ReLU\): changes the input data in place, expected a top of another"):
        compared(
            with_input(
                """layer { name: "r" type: "ReLU" bottom: "data" top: "data" }
                   layer { name: "s" type: "Softmax" bottom: "data" top: "s" }""",
                3,
            )
        )


def test_names_that_meet_are_told_apart() -> None:
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
def test_layers_refused_by_type(rest: str) -> None:
    with pytest.raises(Refused, match=f"^{REFUSED[rest]}"):
        check_layers(parse(LAYER.format(rest)))


def test_the_page_says_which_types_are_written() -> None:
    with pytest.raises(Refused) as error:
        check_layers(parse(LAYER.format('type: "Embed"')))
    _, types = str(error.value).split("expected one of ")
    assert f" {types}. " in " ".join((ROOT / "docs/converting.md").read_text().split())


@pytest.mark.parametrize("name", ["", 'name: "same"'])
def test_layers_without_parameters_may_have_one_name_or_none(name: str) -> None:
    text = f"""layer {{ name: "a" type: "Scale" bottom: "data" top: "a" }}
               layer {{ {name} type: "ReLU" bottom: "a" top: "a" }}
               layer {{ {name} type: "Power" bottom: "a" top: "b" power_param {{ shift: -0.5 }} }}
               layer {{ {name} type: "ReLU" bottom: "b" top: "b" }}"""
    assert_agrees(with_input(text, 3), "a", "b")


def test_other_inputs_and_outputs_are_refused() -> None:
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
