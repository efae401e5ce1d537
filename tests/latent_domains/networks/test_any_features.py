"""The net over stored features of a backbone, read as a graph and trained."""

import pytest

from latent_domains.experiment.experiment import make_experiment
from latent_domains.experiment.methods import BRANCH_NORMS, METHODS
from tests.latent_domains.convert.fold.models import trained, tried
from tests.latent_domains.nets.experiments import nets_of
from tests.latent_domains.nets.graphs import layers, parse
from tests.pictures import QUICK, train

DATASET = "pacs_lite0"


@pytest.mark.parametrize("method", METHODS)
def test_any_features_the_trunk_sees_the_final_features_alone(method):
    _, nets = nets_of(DATASET, method)
    for name in ("train", "test", "deploy"):
        net = layers(nets[name])
        cut = net["class_final"]
        assert (list(cut.slice_param.slice_point), cut.slice_param.axis) == ([1280], 1)
        reader = next(layer for layer in net.values() if "class_final" in layer.bottom)
        assert reader.name == {"plain": "classifier", "source_only": "features_bn"}.get(method, "features_mda")
        assert [layer.type for layer in net.values() if "class_early" in layer.bottom] == ["Silence"]


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("linear", ["features_mda", "classifier"]),
        ("paper", ["features_mda", "features_scale", "relu", "classifier", "classifier_mda", "classifier_scale"]),
    ],
)
def test_any_features_the_heads(head, expected):
    _, nets = nets_of(DATASET, "dial", head=head)
    net = layers(nets["train"])
    first = list(net).index("features_mda")
    assert list(net)[first : first + len(expected)] == expected
    assert net["classifier"].inner_product_param.bias_term is (head == "linear")


def test_any_features_the_mean_prediction_of_the_target_has_a_loss():
    net = layers(nets_of(DATASET, "dial", lambda_m=0.3)[1]["train"])
    assert list(net["mean_entropy_class"].loss_weight) == pytest.approx([-0.3])
    assert list(net["mean_entropy_class"].bottom) == ["scores_target"]
    assert "mean_entropy_class" not in layers(nets_of(DATASET, "dial", lambda_m=0.0)[1]["train"])


@pytest.mark.parametrize("branch_norm", BRANCH_NORMS)
@pytest.mark.parametrize("share", [0.0, 0.05])
def test_any_features_what_the_branch_reads(branch_norm, share):
    labels = (
        {f"{part}": f"labels/{part}" for part in make_experiment(DATASET, "mda").task.source_inputs} if share else None
    )
    options = {"branch_norm": branch_norm, "known_share": share, "domain_label_lmdbs": labels}
    for source, reader in (("final", "domain_relu"), ("early", "domain_standardised")):
        _, nets = nets_of(DATASET, branch_input=source, **options)
        for name in ("train", "domains"):
            net = layers(nets[name])
            assert list(net[reader].bottom) == [f"domain_{source}"]
            assert list(net["domain_final"].bottom) == ["stem_source" if name == "train" else "data"]
            assert list(net["domain_final"].top) == ["domain_final", "domain_early"]
            unread = {"final": "domain_early", "early": "domain_final"}[source]
            assert [layer.type for layer in net.values() if unread in layer.bottom] == ["Silence"]
            assert "domain_relu" not in net or source == "final", "a ReLU would lose half of what is standardised"


@pytest.mark.parametrize("name", ["deploy", "domains"])
@pytest.mark.parametrize("source", ["final", "early"])
def test_any_features_nets_fold_into_stock_layers(name, source):
    _, nets = nets_of(DATASET, branch_input=source, branch_norm="logits")
    done = tried(trained(parse(nets[name])), rows=2)
    assert not {"BatchNorm", "Python"} & {layer.type for layer in done.folded.model.net.layer}


@pytest.mark.program
def test_any_features_a_net_on_features_trains_without_a_branch(lite0_features, tmp_path):
    train(make_experiment(DATASET, "source_only", **QUICK), tmp_path / "run", lite0_features)


@pytest.mark.program
@pytest.mark.parametrize(
    ("source", "options"), [("final", {"known_share": 0.05}), ("early", {"no_w_gradient": True})], ids=str
)
def test_any_features_a_branch_on_features_trains(source, options, lite0_features, tmp_path):
    experiment = make_experiment(DATASET, "mda", branch_input=source, branch_norm="logits", **options, **QUICK)
    record = train(experiment, tmp_path / "run", lite0_features)
    assert record["domain_usage"]["images"] == 42
