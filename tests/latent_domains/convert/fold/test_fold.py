"""Every net of ours folds, at a size that a test can afford: without normalisation, with BN, with mDA."""

import pytest

from latent_domains.experiment.experiment import make_experiment
from latent_domains.nets.family import deploy_net
from tests.latent_domains.convert.fold.models import Tried, trained, tried

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
    for layer in net.layer:
        if layer.type == "Input" and network in SIZES:
            layer.input_param.shape[0].dim[2:] = [SIZES[network]] * 2
        if network == "alexnet" and layer.name in ("fc6", "fc7"):
            layer.inner_product_param.num_output = 64
    done = tried(trained(net), rows=2)
    assert list(done.folded.heads)[-1] == "prob" and "data" in done.after
    stock = {"Input", "Convolution", "InnerProduct", "Pooling", "ReLU", "Softmax", "LRN", "Eltwise", "Scale", "Slice"}
    assert {layer.type for layer in done.folded.model.net.layer} <= stock | {"Silence", "Reshape"}
    return done


@pytest.mark.parametrize("method", ["plain", "source_only", "mda"])
@pytest.mark.parametrize(("dataset", "end"), [("digits", DIGITS), ("office31", ALEXNET), ("office31_fc7", FC7)])
def test_nets_without_residual_blocks(dataset: str, end: str, method: str) -> None:
    done = folded(dataset, method)
    assert done.layers.endswith(end)
    assert done.layers.removesuffix(end) in ("", "fc7_scale:Scale ") or dataset == "office31"


@pytest.mark.parametrize(
    ("method", "geometry", "convolutions"), [("source_only", "torch", 20), ("mda", "torch", 20), ("mda", "caffe", 21)]
)
def test_residual_nets(method: str, geometry: str, convolutions: int) -> None:
    done = folded("pacs", method, geometry=geometry)
    assert "Scale" not in done.layers and done.layers.count("Convolution") == convolutions
    assert ("Slice" in done.layers) == (geometry == "torch")


@pytest.mark.parametrize("dataset", ["digits", "office_caltech", "office_caltech_fc7", "pacs"])
def test_latent_targets(dataset: str) -> None:
    options = {"k_target": 2} if dataset in ("digits", "pacs") else {}
    done = folded(dataset, "mda", **options)
    assert "w_target:InnerProduct" in done.layers
    assert any("the branch that predicts it stays" in note for note in done.folded.notes)
    assert set(done.folded.pairs) >= {"w_target", "prob"}
