"""The net over AlexNet's fc7 features, read as a graph and trained."""

import pytest

from latent_domains.experiment.experiment import make_experiment
from tests.latent_domains.nets.experiments import nets_of
from tests.latent_domains.nets.graphs import layers
from tests.pictures import QUICK, train


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
def test_a_net_on_fc7_features_trains_with_known_domain_labels(features, tmp_path):
    train(make_experiment("office31_fc7", "mda", known_share=0.05, **QUICK), tmp_path / "run", features)


@pytest.mark.program
@pytest.mark.parametrize("targets", [("webcam", "dslr"), ("amazon",)])
def test_a_net_on_fc7_features_trains_with_one_target_or_two(targets, features, tmp_path):
    experiment = make_experiment("office_caltech_fc7", "mda", targets=targets, **QUICK)
    train(experiment, tmp_path / "run", features, caffe_test=True)
