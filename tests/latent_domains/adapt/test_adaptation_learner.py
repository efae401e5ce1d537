"""What is trained where nothing is said, and by which options."""

import pytest

from latent_domains.adapt import adaptation
from latent_domains.adapt.adaptation import (
    IMAGE_SIZE,
    ITERATIONS,
    ON_FEATURES,
    Learner,
    choose_learner,
    default_network,
    for_features,
    with_defaults,
)
from latent_domains.common.program import ProgramError


def test_default_network_is_one_that_this_machine_trains_in_minutes(monkeypatch):
    monkeypatch.delenv("SOLVER_MODE", raising=False)
    for reason, expected in (("the driver shows no GPU", "lite0"), (None, "resnet18")):
        monkeypatch.setattr(adaptation, "why_no_gpu", lambda reason=reason: reason)
        assert default_network(None) == expected
    assert default_network("CPU") == "lite0" and default_network("GPU") == "resnet18"


def test_with_defaults_what_is_chosen_stays_and_the_rest_is_the_networks():
    nothing = {"method": "mda", **dict.fromkeys(ON_FEATURES), "k": None}
    assert with_defaults(Learner("lite0"), nothing) == {"method": "mda", **ON_FEATURES, "k": None}
    chosen = {**nothing, "no_w_gradient": False, "branch_norm": "layers"}
    assert with_defaults(Learner("lite0"), chosen) == {**chosen, "branch_input": "early", "lambda_d": 0.1}
    assert with_defaults(Learner("resnet18"), nothing) == {**nothing, "branch_norm": "logits"}
    targets = {**nothing, "k_target": None}
    assert with_defaults(Learner("lite0"), targets) == {**ON_FEATURES, "method": "mda", "k": None, "k_target": 1}
    latent = with_defaults(Learner("lite0"), {**nothing, "k_target": 2})
    assert (latent["branch_input"], latent["lambda_d"]) == ("final", 0.1)
    dial = {**nothing, "method": "dial"}
    assert with_defaults(Learner("lite0"), dial) == dial


@pytest.mark.parametrize(
    ("network", "options", "expected"),
    [
        ("lite0", {}, "style_w"),
        ("lite0", {"k": 3}, "style_w"),
        ("lite0", {"k": 1}, "dial"),
        ("lite0", {"lambda_d": 0.2}, "mda"),
        ("lite0", {"known_share": 0.05}, "mda"),
        ("lite0", {"known_share": 0.0, "domain_gain": 1.0}, "style_w"),
        ("lite0", {"method": "dial", "known_share": 0.05}, "dial"),
        ("resnet18", {}, "mda"),
    ],
)
def test_with_defaults_has_the_usual_method(network, options, expected):
    for fine_tune in (False, True):
        assert with_defaults(Learner(network, fine_tune), {"method": None, **options})["method"] == expected


@pytest.mark.parametrize(
    ("last", "options", "expected"),
    [
        ("b,2", {}, "multi_source"),
        ("b,", {}, "mda"),
        ("b,2", {"lambda_t": 0.1}, "mda"),
        ("b,", {"method": "multi_source"}, "multi_source"),
    ],
)
@pytest.mark.parametrize("network", ["lite0", "resnet18"])
def test_with_defaults_has_the_usual_method_on_domains_of_a_file(network, last, options, expected, tmp_path):
    file = tmp_path / "domains.csv"
    file.write_text(f"picture,domain\na,1\n{last}\n")
    assert with_defaults(Learner(network), {"method": None, "domains": file, **options})["method"] == expected


@pytest.mark.parametrize("method", ["mda", "multi_source", "style_w"])
def test_with_defaults_several_targets_are_one_domain_and_need_no_branch(method):
    nothing = {"method": method, **dict.fromkeys(ON_FEATURES), "k_target": None}
    assert with_defaults(Learner("lite0"), nothing)["k_target"] == 1


def test_choose_learner_fine_tunes_a_backbone_only_where_that_is_asked_for(monkeypatch):
    monkeypatch.setattr(adaptation, "why_no_gpu", lambda: None)
    features, tuned = (choose_learner("lite0", fine_tune, None, "CPU") for fine_tune in (False, True))
    assert features == Learner("lite0") and features.on_features and features.features_alone is None
    assert tuned == Learner("lite0", True, IMAGE_SIZE) and not tuned.on_features and tuned.features_alone == features
    assert choose_learner("lite0", True, 224, "GPU").image_size == 224
    assert (tuned.pictures.network, tuned.pictures.shape) == ("lite0", (3, IMAGE_SIZE, IMAGE_SIZE))
    assert features.pictures.stored_shape == (3, 256, 256)
    net = choose_learner(None, True, None, "GPU")
    assert (
        net == choose_learner("resnet18", False, None, "GPU") == Learner("resnet18")
        and net.features_alone is None
        and not net.on_features
    )
    with pytest.raises(ProgramError, match="--image-size 128: features of lite0 are of 224×224 pixels, expected --f"):
        choose_learner("lite0", False, 128, "CPU")


def test_for_features_shares_what_is_asked_and_not_how_the_net_is_trained():
    names = ("k", "k_target", "known_share", "iterations", "base_lr", "seed", *ON_FEATURES)
    given = {**dict.fromkeys(names), "method": "mda", "k": 3, "seed": 1, "base_lr": 0.01, "lambda_d": 0.2}
    tuned = Learner("lite0", True, 64)
    chosen = with_defaults(tuned, given)
    assert (chosen["iterations"], chosen["branch_norm"], chosen["lambda_d"]) == (ITERATIONS, "logits", 0.2)
    assert chosen["branch_input"] is chosen["no_w_gradient"] is None
    assert with_defaults(tuned, {**given, "iterations": 4})["iterations"] == 4
    alone = for_features(tuned.features_alone, chosen)
    nothing = {**dict.fromkeys(names), "method": "mda", "k": 3, "seed": 1}
    assert alone == with_defaults(Learner("lite0"), nothing)
