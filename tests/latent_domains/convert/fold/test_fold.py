"""Every net of ours folds, by every method, at a size that a test can afford."""

import pytest
from caffe.proto.caffe_pb2 import NetParameter

from latent_domains.experiment.experiment import METHODS, make_experiment
from latent_domains.nets.family import deploy_net
from tests.latent_domains.convert.fold.models import Tried, trained, tried

pytestmark = pytest.mark.slow

SIZES = {"mnist": 28, "alexnet": 99, "resnet18": 64}
"""Height and width; AlexNet's inner products are narrow, too."""


def small(dataset: str, method: str, **options: object) -> NetParameter:
    experiment = make_experiment(dataset, method, **options)
    net = deploy_net(experiment).to_proto()
    for layer in net.layer:
        if layer.type == "Input" and experiment.data.network in SIZES:
            layer.input_param.shape[0].dim[2:] = [SIZES[experiment.data.network]] * 2
        if experiment.data.network == "alexnet" and layer.name in ("fc6", "fc7"):
            layer.inner_product_param.num_output = 64
    return net


def folded(dataset: str, method: str, **options: object) -> Tried:
    done = tried(trained(small(dataset, method, **options)), rows=2)
    assert list(done.folded.heads)[-1] == "prob" and "data" in done.after
    stock = {"Input", "Convolution", "InnerProduct", "Pooling", "ReLU", "Softmax", "LRN", "Eltwise", "Scale", "Slice"}
    assert {layer.type for layer in done.folded.model.net.layer} <= stock | {"Silence", "Reshape"}
    return done


@pytest.mark.parametrize("method", METHODS)
def test_digits(method: str) -> None:
    assert folded("digits", method).layers == (
        "conv1:Convolution pool1:Pooling relu1:ReLU conv2:Convolution pool2:Pooling relu2:ReLU "
        "fc3:InnerProduct relu3:ReLU fc4:InnerProduct relu4:ReLU fc5:InnerProduct prob:Softmax"
    )


@pytest.mark.parametrize("method", METHODS)
def test_office31(method: str) -> None:
    assert folded("office31", method).layers.endswith(
        "pool5:Pooling fc6:InnerProduct relu6:ReLU fc7:InnerProduct relu7:ReLU classifier:InnerProduct prob:Softmax"
    )


@pytest.mark.parametrize("method", METHODS)
def test_office31_fc7(method: str) -> None:
    scale = {"plain": "", "source_only": "fc7_scale:Scale "}.get(method, "fc7_scale:Scale ")
    assert folded("office31_fc7", method).layers == f"{scale}relu7:ReLU classifier:InnerProduct prob:Softmax"


@pytest.mark.parametrize("method", [method for method in METHODS if method != "plain"])
@pytest.mark.parametrize("geometry", ["torch", "caffe"])
def test_pacs(method: str, geometry: str) -> None:
    done = folded("pacs", method, geometry=geometry)
    assert "Scale" not in done.layers
    assert done.layers.count("Convolution") == (20 if geometry == "torch" else 21)
    assert ("Slice" in done.layers) == (geometry == "torch")


@pytest.mark.parametrize("dataset", ["digits", "office_caltech", "office_caltech_fc7", "pacs"])
def test_latent_targets(dataset: str) -> None:
    options = {"k_target": 2} if dataset in ("digits", "pacs") else {}
    done = folded(dataset, "mda", **options)
    assert "w_target:InnerProduct" in done.layers
    assert any("the branch that predicts it stays" in note for note in done.folded.notes)
    assert set(done.folded.pairs) >= {"w_target", "prob"}


def test_an_undivided_source_changes_nothing() -> None:
    assert folded("pacs", "mda", undivided=True).layers == folded("pacs", "mda").layers
