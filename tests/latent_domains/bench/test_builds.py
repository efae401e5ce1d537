import re
from pathlib import Path

import caffe
import numpy as np
import pytest
from caffe.proto import caffe_pb2

from latent_domains.bench import builds
from latent_domains.common.program import ROOT, ProgramError
from latent_domains.models.gate import read_net

NET = ROOT / "prototxt/mnist/demo_train.prototxt"
PREFIX = Path(caffe.__file__).parents[2]


@pytest.fixture(scope="module")
def alone() -> dict[str, caffe_pb2.NetParameter]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(builds, "check_definition", lambda *_: None)  # in a process of its own
        return dict(builds.layers_alone(NET, (3, 28, 28), 4))


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


def test_what_a_layer_computes(alone):
    product = next(net for net in alone.values() if net.layer[-1].type == "InnerProduct")
    results = builds.compute(product)
    assert set(results) == {
        "top top0",
        "gradient of bottom0",
        *(f"{what}parameter {i}" for what in ("", "gradient of ") for i in range(len(results) // 2 - 1)),
    }
    assert all(np.abs(value).max() > 0 for value in results.values())


def test_a_difference_is_a_share_of_the_largest_value():
    expected = {"a": np.array([1.0, -4.0]), "b": np.zeros(2)}
    got = {"a": np.array([1.5, -4.0]), "b": np.array([0.0, 2.0])}
    assert builds.difference(got, expected) == {"a": 0.125, "b": 2.0}


@pytest.mark.parametrize("sides", [(np.nan, 1.0), (1.0, np.nan), (np.inf, np.inf)])
def test_what_is_no_finite_number_differs_infinitely(sides):
    got, expected = ({"a": np.array([2.0, value])} for value in sides)
    assert builds.difference(got, expected) == {"a": np.inf}


@pytest.mark.program
def test_a_build_agrees_with_itself_and_says_where_it_ended(alone):
    with builds.other_build(PREFIX) as compute_there:
        for net in alone.values():
            shares = builds.difference(builds.compute(net), compute_there(net))
            assert shares and not any(shares.values())
        with pytest.raises(ProgramError, match="this build ended with -6 on the layer"):
            compute_there(caffe_pb2.NetParameter(layer=[caffe_pb2.LayerParameter(name="x", type="NoSuchLayer")]))


def test_a_folder_without_caffe(tmp_path):
    with pytest.raises(ProgramError, match=r"_caffe\.so is missing"), builds.other_build(tmp_path):
        pass
