"""AlexNet read as a graph, and trained on real pictures, if only for a few iterations."""

from pathlib import Path

import caffe
import pytest
from google.protobuf.json_format import MessageToDict

from latent_domains.experiment.experiment import make_experiment
from latent_domains.experiment.methods import METHODS
from latent_domains.models.graph import kind
from latent_domains.nets.training_files import FC7_NET, committed_files
from tests.latent_domains.nets.experiments import nets_of
from tests.latent_domains.nets.graphs import layers, learners, parse
from tests.pictures import QUICK, train

CONVOLUTIONS = ("conv1", "conv2", "conv3", "conv4", "conv5")


def computed(layer) -> dict[str, object]:
    """What a layer computes: its type, place and settings, but not what it learns from where."""
    for form in (layer.convolution_param, layer.inner_product_param):
        form.ClearField("weight_filler")
        form.ClearField("bias_filler")
        form.bias_term = form.bias_term  # said, though it is the default
    layer.ClearField("param")
    return MessageToDict(layer)


def test_alexnet_up_to_fc7_is_bvlcs():
    """Whose weights are to be loaded; Caffe brings its prototxt."""
    file = Path(caffe.__file__).parents[2] / "models" / "bvlc_alexnet" / "deploy.prototxt"
    bvlc = [computed(layer) for layer in parse(file.read_text()).layer if layer.type not in ("Input", "Dropout")]
    found = [computed(layer) for layer in parse(committed_files()[FC7_NET]).layer[1:]]
    assert found == bvlc[: len(found)] and found[-1]["name"] == "fc7"


@pytest.mark.parametrize("dataset", ["office31", "office_caltech", "office31_fc7", "office_caltech_fc7"])
@pytest.mark.parametrize("method", METHODS)
def test_alexnet_what_learns_in_alexnet(dataset, method):
    experiment, nets = nets_of(dataset, method)
    found = learners(parse(nets["train"]))
    expected = {}
    normalised = ["fc7", "classifier"]
    if not dataset.endswith("_fc7"):
        expected = {name: [(0, 0), (0, 0)] for name in CONVOLUTIONS}
        expected |= {"fc6": [(1, 1), (2, 0)], "fc7": [(1, 1), (2, 0)]}
        normalised.insert(0, "fc6")
    if method == "plain":
        expected["classifier"] = [(10, 1), (20, 0)]
    else:
        norm = "bn" if method == "source_only" else "mda"
        expected["classifier"] = [(10, 1)]
        for name in normalised:
            expected |= {f"{name}_{norm}": [(0, 0)] * 3, f"{name}_scale": [(1, 0)] * 2}
    if experiment.method.has_branch:
        expected["domain_fc"] = [(10, 1), (20, 0)]
    if experiment.method.has_target_branch:
        expected["target_domain_fc"] = [(10, 1), (20, 0)]
    assert found == expected


def test_dropout_is_where_there_is_no_normalisation():
    for method in METHODS:
        net = parse(nets_of("office31", method)[1]["train"])
        drops = [layer.name for layer in net.layer if layer.type == "Dropout"]
        assert drops == (["drop6", "drop7"] if method == "plain" else []), method


def test_branch_of_alexnet_is_that_of_the_paper():
    net = parse(nets_of("office31")[1]["train"])
    order = [kind(layer) for layer in net.layer if layer.name.startswith("domain_")]
    assert order == ["ReLU", "Pooling", "InnerProduct"]
    pool = next(layer for layer in net.layer if layer.name == "domain_pool").pooling_param
    assert pool.global_pooling and pool.pool == pool.AVE
    stem = next(layer for layer in net.layer if "stem_source" in layer.top)
    assert list(stem.bottom) == ["pool5"]


# The other methods' nets differ from these two in how w is made, and on the digits all are trained.


@pytest.mark.program
def test_alexnet_trains_without_normalisation(pictures, tmp_path):
    record = train(make_experiment("office31", "plain", **QUICK), tmp_path / "run", pictures)
    assert record["domain_usage"] is None


@pytest.mark.program
def test_alexnet_trains_with_latent_targets(pictures, tmp_path):
    record = train(make_experiment("office_caltech", "mda", **QUICK), tmp_path / "run", pictures)
    assert record["domain_usage"]["sources"] == ["amazon", "caltech"]
    assert record["target_domain_usage"]["sources"] == ["webcam", "dslr"]
    assert len(record["target_domain_usage"]["share"]) == 2


@pytest.mark.parametrize("dataset", ["office31_fc7", "office_caltech_fc7"])
def test_features_are_normalised_and_nothing_below_is_left(dataset):
    net = layers(nets_of(dataset)[1]["train"])
    assert not [layer.name for layer in net.values() if layer.type in ("Convolution", "LRN", "Pooling")]
    assert [n for n in net if n.startswith("fc")] == ["fc7_mda", "fc7_scale"]
    assert list(net["fc7_mda"].bottom) == ["data", "w"]
    for layer in net.values():
        if layer.type == "Data":
            assert not layer.HasField("transform_param"), layer.name
    order = list(net)
    assert order[order.index("fc7_mda") :][:4] == ["fc7_mda", "fc7_scale", "relu7", "classifier"]


@pytest.mark.program
def test_alexnet_a_net_on_fc7_features_trains_with_known_domain_labels(features, tmp_path):
    train(make_experiment("office31_fc7", "mda", known_share=0.05, **QUICK), tmp_path / "run", features)


@pytest.mark.program
@pytest.mark.parametrize("targets", [("webcam", "dslr"), ("amazon",)])
def test_alexnet_a_net_on_fc7_features_trains_with_one_target_or_two(targets, features, tmp_path):
    experiment = make_experiment("office_caltech_fc7", "mda", targets=targets, **QUICK)
    train(experiment, tmp_path / "run", features, caffe_test=True)
