import re
from pathlib import Path

import caffe
import numpy as np
import pytest
from caffe.proto import caffe_pb2

from latent_domains.bench import builds
from latent_domains.common.program import ROOT, ProgramError
from latent_domains.models.compare import Difference, differences
from latent_domains.models.gate import read_net

NET = ROOT / "prototxt/mnist/demo_train.prototxt"
PREFIX = Path(caffe.__file__).parents[2]


@pytest.fixture(scope="module")
def alone() -> dict[str, caffe_pb2.NetParameter]:
    return dict(builds.layers_alone(NET, (3, 28, 28), 4))


@pytest.mark.program
def test_every_layer_that_computes_stands_alone(alone):
    net = read_net(NET, ["Data"])
    assert list(alone) == [layer.name for layer in net.layer if layer.type not in (*builds.NO_COMPUTATION, "Data")]
    assert {"Convolution", "Pooling", "Scale", "Slice", "SoftmaxWithLoss"} <= {n.layer[-1].type for n in alone.values()}
    for net in alone.values():
        if net.layer[-1].type != "Slice":
            assert net.layer[0].input_param.shape[0].dim[0] == 4


@pytest.mark.program
def test_a_net_that_caffe_refuses(tmp_path):
    net = tmp_path / "net.prototxt"
    net.write_text(
        """layer { name: "data" type: "Data" top: "data" data_param { batch_size: 4 } }
           layer { name: "a" type: "Convolution" bottom: "data" top: "a"
                   convolution_param { num_output: 2 kernel_size: 40 } }"""
    )
    with pytest.raises(ProgramError, match=rf"^{re.escape(str(net))}: Caffe refuses this net: .*"):
        next(builds.layers_alone(net, (3, 28, 28), 4))


@pytest.mark.parametrize("kind", ["ArgMax", "Threshold"])
def test_a_layer_without_a_backward_pass(kind):
    net = caffe_pb2.NetParameter(force_backward=True)
    net.layer.add(name="bottom0", type="Input", top=["bottom0"]).input_param.shape.add(dim=[4, 5])
    net.layer.add(name="layer", type=kind, bottom=["bottom0"], top=["top0"])
    assert set(builds.compute(net)) == {"top top0"}


def test_labels_are_classes():
    net = caffe_pb2.NetParameter(force_backward=True)
    for bottom, shape in (("bottom0", [50, 5]), ("bottom1", [50])):
        net.layer.add(name=bottom, type="Input", top=[bottom]).input_param.shape.add(dim=shape)
    net.layer.add(name="layer", type="HingeLoss", bottom=["bottom0", "bottom1"], top=["top0"])
    gradient = builds.compute(net)["gradient of bottom0"]
    assert ((gradient < 0).sum(axis=0) > 3).all(), "a row's gradient is negative at its label alone"


@pytest.mark.program
def test_what_a_layer_computes(alone):
    product = next(net for net in alone.values() if net.layer[-1].type == "InnerProduct")
    results = builds.compute(product)
    assert set(results) == {
        "top top0",
        "gradient of bottom0",
        *(f"{what}parameter {i}" for what in ("", "gradient of ") for i in range(len(results) // 2 - 1)),
    }
    assert all(np.abs(value).max() > 0 for value in results.values())


@pytest.fixture
def net(tmp_path) -> Path:
    """A net that sees the demo's images: two layers of a type that are alike, one that is not, and a ReLU."""
    product = 'layer {{ name: "{0}" type: "InnerProduct" bottom: "data" top: "{0}" inner_product_param {{ {1} }} }}'
    file = tmp_path / "demo_small.prototxt"
    file.write_text(
        'layer { name: "data" type: "Data" top: "data" data_param { batch_size: 4 } }'
        + product.format("a", "num_output: 2")
        + product.format("b", "num_output: 2")
        + product.format("c", "num_output: 3")
        + 'layer { name: "relu" type: "ReLU" bottom: "a" top: "relu" }'
    )
    return file


@pytest.mark.program
def test_a_build_beside_another_one(net):
    asked = []

    def other(layer):
        asked.append(layer.layer[-1])
        results = builds.compute(layer)
        spoilt = layer.layer[-1].inner_product_param.num_output == 3
        return {**results, "top top0": np.nan * results["top top0"]} if spoilt else results

    product, relu = builds.compare_builds(other, [net], 2)
    assert [layer.type for layer in asked] == ["InnerProduct", "InnerProduct", "ReLU"]
    assert (product.type, product.layers, product.furthest) == ("InnerProduct", 3, Difference("top top0", np.inf))
    assert product.where == "demo_small.prototxt: c"
    assert (relu.type, relu.layers, relu.furthest.relative) == ("ReLU", 1, 0)


@pytest.mark.program
def test_a_net_in_which_nothing_is_computed(tmp_path):
    net = tmp_path / "demo_nothing.prototxt"
    net.write_text('layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 } } }')
    with pytest.raises(ProgramError, match=f"^{net}: no layer to compare, expected one that Caffe itself computes"):
        builds.compare_builds(builds.compute, [net], 2)


def test_a_net_of_no_dataset(tmp_path):
    net = tmp_path / "unknown.prototxt"
    with pytest.raises(ProgramError, match=f"^{net}: expected a name that begins with a dataset's: digits, "):
        builds.compare_builds(builds.compute, [net], 2)


@pytest.mark.program
def test_a_build_agrees_with_itself_and_says_where_it_ended(alone):
    with builds.other_build(PREFIX) as compute_there:
        for net in alone.values():
            rows = differences(compute_there(net), builds.compute(net))
            assert rows and not any(row.relative for row in rows)
        with pytest.raises(ProgramError, match="this build ended with -6 on the layer"):
            compute_there(caffe_pb2.NetParameter(layer=[caffe_pb2.LayerParameter(name="x", type="NoSuchLayer")]))


def test_a_folder_without_caffe(tmp_path):
    with pytest.raises(ProgramError, match=r"_caffe\.so is missing"), builds.other_build(tmp_path):
        pass
