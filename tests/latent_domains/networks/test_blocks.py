"""What ``branch_norm``, ``domain_gain`` and ``no_w_gradient`` do to the branches that predict domains."""

from pathlib import Path

import caffe
import numpy as np
import pytest

from latent_domains.models.graph import kind
from tests.latent_domains.convert.fold.models import trained, tried
from tests.latent_domains.nets.experiments import nets_of
from tests.latent_domains.nets.graphs import layers, parse

BATCH = 8

BRANCH = {
    "digits": ["domain_conv2", "domain_fc3", "domain_fc4"],
    "office31": ["domain_fc"],
    "office31_fc7": ["domain_fc"],
    "pacs": ["domain_res2a_branch1", "domain_res2a_branch2a", "domain_res2a_branch2b", "domain_fc"],
}
"""The layers with parameters of each dataset's branch."""


def batch_norms(dataset: str, branch_norm: str, **options: object) -> list[str]:
    """What BN layers of a training net's branch normalise, in order."""
    _, nets = nets_of(dataset, branch_norm=branch_norm, **options)
    return [
        layer.bottom[0]
        for layer in parse(nets["train"]).layer
        if kind(layer) == "BatchNorm" and layer.name.startswith(("domain", "target_domain"))
    ]


@pytest.mark.parametrize("dataset", BRANCH)
def test_blocks_what_is_normalised(dataset: str) -> None:
    *inside, classifier = BRANCH[dataset]
    net = layers(nets_of(dataset, branch_norm="centred")[1]["train"])
    features = net["domain_centred"].bottom[0]
    own = inside if dataset == "pacs" else []  # a residual block has its BN layers
    assert batch_norms(dataset, "none") == []
    assert batch_norms(dataset, "layers") == inside
    assert batch_norms(dataset, "centred") == [*own, features]
    assert list(net[classifier].bottom) == ["domain_centred"]
    assert not net[classifier].inner_product_param.bias_term
    assert batch_norms(dataset, "logits") == [*own, classifier]


def test_blocks_conv1_has_a_bias_for_the_branch_alone() -> None:
    without, with_bias = (layers(nets_of("digits", conv1_bias=bias)[1]["train"]) for bias in (False, True))
    changed = [name for name in without if without[name] != with_bias[name]]
    assert changed == ["conv1"] and with_bias["conv1"].convolution_param.bias_term
    assert not without["conv1"].convolution_param.bias_term


@pytest.mark.parametrize("branch_norm", ["centred", "logits"])
def test_blocks_target_branches_alike(branch_norm: str) -> None:
    _, nets = nets_of("office_caltech", branch_norm=branch_norm)
    found = batch_norms("office_caltech", branch_norm)
    assert len(found) == 2 and found[1].replace("target_", "") == found[0]
    name = "centred" if branch_norm == "centred" else "logits_bn"
    for net in ("train", "domains"):
        assert {f"domain_{name}", f"target_domain_{name}"} <= set(layers(nets[net]))
    assert f"target_domain_{name}" in layers(nets["deploy"])


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("gain", [1.0, 3.0])
def test_logits_are_centred_over_the_source_rows_and_feed_w_and_the_entropy(
    k: int, gain: float, tiny_data: Path, tmp_path: Path
) -> None:
    options = {"branch_norm": "logits", "domain_gain": gain, "batch_size": BATCH, "k": k}
    _, nets = nets_of("digits", data=tiny_data, **options)
    (tmp_path / "net").write_text(nets["train"])
    net = caffe.Net(str(tmp_path / "net"), caffe.TRAIN)
    outputs = net.forward()
    raw = net.blobs["domain_fc4"].data.astype(float)
    logits = gain * (raw - raw.mean(axis=0)) / np.sqrt(raw.var(axis=0) + 1e-5)
    w = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(net.blobs["w"].data[: 2 * BATCH, :k], w, atol=1e-5)
    assert outputs["entropy_domain"] == pytest.approx(-(w * np.log(w)).sum(axis=1).mean(), abs=1e-5)


@pytest.mark.parametrize("branch_norm", ["layers", "centred", "logits"])
def test_blocks_the_domain_net_has_the_running_statistics(branch_norm: str, tiny_data: Path, tmp_path: Path) -> None:
    """After one iteration they are the batch's, with an unbiased variance."""
    _, nets = nets_of("digits", data=tiny_data, branch_norm=branch_norm, batch_size=100)
    for name, text in nets.items():
        (tmp_path / name).write_text(text)
    train = caffe.Net(str(tmp_path / "train"), caffe.TRAIN)
    train.forward()
    domains = caffe.Net(str(tmp_path / "domains"), caffe.TEST)
    domains.share_with(train)
    domains.blobs["data"].reshape(200, 3, 28, 28)
    domains.blobs["data"].data[...] = train.blobs["data"].data[:200]
    found = domains.forward()["domain_prob"]
    np.testing.assert_allclose(found, train.blobs["w"].data[:200, :2], atol=0.01)


@pytest.mark.parametrize("blocked", [False, True])
def test_blocks_the_gradient_through_w_can_be_kept_from_the_branch(
    blocked: bool, tiny_data: Path, tmp_path: Path
) -> None:
    """Without h_D nothing else moves the domain classifier."""
    options = {"lambda_d": 0.0, "no_w_gradient": blocked, "batch_size": BATCH}
    _, nets = nets_of("digits", data=tiny_data, **options)
    (tmp_path / "net").write_text(nets["train"])
    net = caffe.Net(str(tmp_path / "net"), caffe.TRAIN)
    net.forward()
    net.backward()
    assert net.params["domain_fc4"][0].diff.any() != blocked
    assert net.params["conv1"][0].diff.any() and net.params["fc5"][0].diff.any()


@pytest.mark.parametrize("branch_norm", ["layers", "centred", "logits"])
@pytest.mark.parametrize("dataset", ["digits", "office31_fc7"])
def test_blocks_domain_nets_fold_into_stock_layers(dataset: str, branch_norm: str) -> None:
    options = {"domain_gain": 2.0} if branch_norm == "logits" else {}
    _, nets = nets_of(dataset, branch_norm=branch_norm, **options)
    done = tried(trained(parse(nets["domains"])), rows=2)
    assert "domain_prob" in done.folded.heads
    assert not {"BatchNorm", "Python"} & {layer.type for layer in done.folded.model.net.layer}
