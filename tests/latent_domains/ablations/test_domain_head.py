"""The real domain classifier and h_D on features of which the answer is known."""

import caffe
import numpy as np
import pytest

from latent_domains.ablations.domain_head import Head, entropy_alone, gradient
from latent_domains.runs.write import write_run
from tests.run_folders import small


def features(mean: float) -> np.ndarray:
    """Two clouds (n×100), both shifted along the first axis by ``mean``, that differ along all the others."""
    rng = np.random.default_rng(0)
    f = 0.3 * rng.standard_normal((400, 100))
    f[:, 0] += mean
    f[:, 1:] += np.repeat([-0.5, 0.5], 200)[:, None]
    return f.astype(np.float32)


def drawn(tmp_path, tiny_data, branch_norm):
    experiment = small(branch_norm=branch_norm)
    return experiment, write_run(experiment, tmp_path / "run", data=tiny_data).initial


@pytest.mark.parametrize(
    ("branch_norm", "followed", "apart"),
    [
        ("none", "second_moment", 0),
        ("layers", "second_moment", 0),
        ("centred", "second_moment", 1),
        ("logits", "covariance", 1),
    ],
)
def test_what_h_d_follows_decides_whether_all_features_go_one_way(branch_norm, followed, apart, tmp_path, tiny_data):
    experiment, weights = drawn(tmp_path, tiny_data, branch_norm)
    found = gradient(experiment, features(10), weights)
    assert found[f"gradient_{followed}_near_uniform"] > 0.99
    if branch_norm != "centred":  # where the two are one
        (other,) = {"second_moment", "covariance"} - {followed}
        assert found[f"gradient_{other}_near_uniform"] < 0.9
    assigned = entropy_alone(Head.of(experiment, features(10), weights)).argmax(axis=1)
    assert abs(assigned[:200].mean() - assigned[200:].mean()) == pytest.approx(apart, abs=0.02)


def test_without_a_mean_plain_features_are_divided_too(tmp_path, tiny_data):
    """So it is the mean, and nothing else of the classifier, that sends all one way."""
    experiment, weights = drawn(tmp_path, tiny_data, "none")
    f = features(0)
    assigned = entropy_alone(Head.of(experiment, f - f.mean(axis=0), weights)).argmax(axis=1)
    assert abs(assigned[:200].mean() - assigned[200:].mean()) > 0.98


@pytest.mark.parametrize("branch_norm", ["none", "logits"])
def test_the_descent_is_that_of_the_loss(branch_norm, tmp_path, tiny_data):
    """A small step along it lowers h_D by the step times its squared length."""
    experiment, weights = drawn(tmp_path, tiny_data, branch_norm)
    head = Head.of(experiment, features(1), weights)
    before, descent, step = float(head.net.blobs["entropy"].data), head.descent(), 1e-2
    head.put(head.parameters + step * descent / np.linalg.norm(descent))
    head.net.forward()
    lowered = before - float(head.net.blobs["entropy"].data)
    assert lowered == pytest.approx(step * np.linalg.norm(descent), rel=0.1)


def test_its_logits_are_those_of_the_domain_net(trained, tiny_data):
    weights = trained.latest_snapshot().model
    net = trained.load_net("domains", caffe.TRAIN, weights)
    net.blobs["data"].reshape(6, 3, 28, 28)
    net.blobs["data"].data[...] = np.random.default_rng(0).standard_normal((6, 3, 28, 28))
    probabilities = net.forward()["domain_prob"]
    head = Head.of(trained.experiment, net.blobs[net.bottom_names["domain_fc4"][0]].data, weights)
    exponentials = np.exp(head.logits)
    np.testing.assert_allclose(exponentials / exponentials.sum(axis=1, keepdims=True), probabilities, atol=1e-5)
