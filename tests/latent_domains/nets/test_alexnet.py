"""AlexNet read as a graph, and trained on real pictures, if only for a few iterations."""

import pytest

from latent_domains.experiment.experiment import make_experiment
from latent_domains.experiment.methods import METHODS
from latent_domains.nets.committed import FC7_NET, committed_files
from tests.latent_domains.nets.experiments import nets_of
from tests.latent_domains.nets.graphs import kind, learners, parse
from tests.pictures import QUICK, train

CONVOLUTIONS = ("conv1", "conv2", "conv3", "conv4", "conv5")

BVLC = (
    # name, type, bottom, top and what matters of BVLC's AlexNet up to fc7, whose weights are to be loaded
    ("conv1", "Convolution", "data", "conv1", {"num_output": 96, "kernel_size": [11], "stride": [4]}),
    ("relu1", "ReLU", "conv1", "conv1", {}),
    ("norm1", "LRN", "conv1", "norm1", {"local_size": 5, "alpha": 1e-4, "beta": 0.75}),
    ("pool1", "Pooling", "norm1", "pool1", {"pool": 0, "kernel_size": 3, "stride": 2, "pad": 0, "round_mode": 0}),
    ("conv2", "Convolution", "pool1", "conv2", {"num_output": 256, "kernel_size": [5], "pad": [2], "group": 2}),
    ("relu2", "ReLU", "conv2", "conv2", {}),
    ("norm2", "LRN", "conv2", "norm2", {"local_size": 5, "alpha": 1e-4, "beta": 0.75}),
    ("pool2", "Pooling", "norm2", "pool2", {"pool": 0, "kernel_size": 3, "stride": 2, "pad": 0, "round_mode": 0}),
    ("conv3", "Convolution", "pool2", "conv3", {"num_output": 384, "kernel_size": [3], "pad": [1], "group": 1}),
    ("relu3", "ReLU", "conv3", "conv3", {}),
    ("conv4", "Convolution", "conv3", "conv4", {"num_output": 384, "kernel_size": [3], "pad": [1], "group": 2}),
    ("relu4", "ReLU", "conv4", "conv4", {}),
    ("conv5", "Convolution", "conv4", "conv5", {"num_output": 256, "kernel_size": [3], "pad": [1], "group": 2}),
    ("relu5", "ReLU", "conv5", "conv5", {}),
    ("pool5", "Pooling", "conv5", "pool5", {"pool": 0, "kernel_size": 3, "stride": 2, "pad": 0, "round_mode": 0}),
    ("fc6", "InnerProduct", "pool5", "fc6", {"num_output": 4096, "bias_term": True}),
    ("relu6", "ReLU", "fc6", "fc6", {}),
    ("fc7", "InnerProduct", "fc6", "fc7", {"num_output": 4096, "bias_term": True}),
)


def settings(layer) -> object:
    """The parameters of a layer's own type."""
    fields = {"Convolution": "convolution", "LRN": "lrn", "Pooling": "pooling", "InnerProduct": "inner_product"}
    return getattr(layer, f"{fields[layer.type]}_param")


def test_alexnet_up_to_fc7_is_bvlcs():
    net = list(parse(committed_files()[FC7_NET]).layer)
    assert net[0].type == "Input" and len(net) == 1 + len(BVLC)
    for layer, (name, kind_, bottom, top, expected) in zip(net[1:], BVLC, strict=True):
        assert (layer.name, layer.type, list(layer.bottom), list(layer.top)) == (name, kind_, [bottom], [top])
        for field, value in expected.items():
            found = getattr(settings(layer), field)
            assert (found if isinstance(value, (int, float)) else list(found)) == pytest.approx(value), (name, field)


@pytest.mark.parametrize("dataset", ["office31", "office_caltech", "office31_fc7", "office_caltech_fc7"])
@pytest.mark.parametrize("method", METHODS)
def test_what_learns_in_alexnet(dataset, method):
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


def test_alexnet_trains_without_normalisation(pictures, tmp_path):
    record = train(make_experiment("office31", "plain", **QUICK), tmp_path / "run", pictures)
    assert record["domain_usage"] is None


def test_alexnet_trains_with_latent_targets(pictures, tmp_path):
    record = train(make_experiment("office_caltech", "mda", **QUICK), tmp_path / "run", pictures)
    assert record["domain_usage"]["sources"] == ["amazon", "caltech"]
    assert record["target_domain_usage"]["sources"] == ["webcam", "dslr"]
    assert len(record["target_domain_usage"]["share"]) == 2
