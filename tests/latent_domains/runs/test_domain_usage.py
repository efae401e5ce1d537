import numpy as np
import pytest

from latent_domains.runs.domain_usage import domain_usage, what_was_told
from tests.run_folders import small


def one_hot(columns, k):
    return np.eye(k, dtype=np.float32)[columns]


def test_how_domains_and_classes_share_the_images():
    """Domains of another order are the same domains; classes cross them, or are them."""
    images = {"a": one_hot([1] * 6, 2), "b": one_hot([0] * 6, 2)}
    crossed = domain_usage(images, {"a": np.arange(6) % 2, "b": np.arange(6) % 2}, held_out=True)
    assert (crossed.nmi, crossed.nmi_classes, crossed.held_out) == (1, pytest.approx(0), True)
    same = domain_usage(images, {"b": np.full(6, 3), "a": np.full(6, 7)})
    assert (same.nmi_classes, same.held_out) == (pytest.approx(1), False)
    assert domain_usage(images).nmi_classes is None


def test_shares_of_the_domains():
    usage = domain_usage({"a": one_hot([0, 0, 0, 1], 2), "b": one_hot([1, 1, 1, 1], 2)})
    assert (usage.purity, usage.images, usage.share) == (7 / 8, 8, [3 / 8, 5 / 8])
    assert usage.counts == [[3, 1], [0, 4]] and usage.mean_probability == [[0.75, 0.25], [0, 1]]


def test_labels_that_the_branch_learnt_from_are_told():
    """Purity of images whose domains were told is no discovery."""
    trained, held_out = (domain_usage({"a": one_hot([0], 2), "b": one_hot([1], 2)}, held_out=h) for h in (False, True))
    said = "in training the branch was told the {} of about 35 % of these images"
    known, style = (small(method="mda", **{share: 0.35}).method for share in ("known_share", "style_share"))
    assert what_was_told(known, trained) == said.format("domain")
    assert what_was_told(style, trained) == said.format("cluster of style")
    nothing = [small(method=name).method for name in ("mda", "dial")]
    assert not any(what_was_told(method, trained) for method in nothing)
    assert not what_was_told(known, held_out)
