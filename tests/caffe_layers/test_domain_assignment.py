"""DomainAssignmentLayer inside real Caffe nets."""

import numpy as np
import pytest

from tests.caffe_layers import reference
from tests.caffe_layers.nets import fill, inputs, make_net, mda, python_layer
from tests.caffe_layers.reference import assert_close, numeric_gradient

pytestmark = pytest.mark.usefixtures("where")


def layer(bottoms, **params):
    return python_layer("DomainAssignmentLayer", bottoms, "w", params)


def numbers(*shape):
    return np.random.default_rng(shape).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("group", [1, 2, 3])
@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("labels", [None, [-1, 0, -1, 0, -1], [0, 0, 0, 0, 0]])
def test_domain_assignment_forward_and_backward(group, first, labels):
    domains = 4
    shape = (5, group) if first else (5, group, 1, 1)  # as global pooling leaves them
    logits, g = numbers(*shape) * 3, numbers(5, domains)
    if labels is not None and group > 1:
        labels = [group - 1 if label == 0 else label for label in labels]
    shapes = {"logits": logits.shape} | ({"labels": (5,)} if labels is not None else {})
    net = make_net(inputs(**shapes) + layer(list(shapes), num_domains=domains, first=first))
    fill(net, logits=logits, **({"labels": labels} if labels is not None else {}))
    net.blobs["w"].data.fill(9)  # the whole top is written, whatever it held
    net.forward()
    z = logits.reshape(5, group).astype(np.float64)
    assert net.blobs["w"].data.shape == (5, domains)
    assert_close("w", net.blobs["w"].data, reference.assignment(z, labels, domains, first), atol=1e-6)
    for name in shapes:
        net.blobs[name].diff.fill(7)
    net.blobs["w"].diff[...] = g
    net.backward()
    want = numeric_gradient(lambda: float((reference.assignment(z, labels, domains, first) * g).sum()), z)
    assert_close("dlogits", net.blobs["logits"].diff, want.reshape(shape), atol=1e-6)
    if labels is not None:
        assert_close("dlabels", net.blobs["labels"].diff, np.zeros(5))
        known = np.asarray(labels) >= 0
        assert not net.blobs["logits"].diff[known].any()


@pytest.mark.parametrize("size", [80, 1e4, 3e38])
def test_domain_assignment_extreme_logits(size):
    net = make_net(inputs(logits=(3, 2)) + layer(["logits"], num_domains=2))
    fill(net, logits=[[size, -size], [-size, size], [size, size]])
    net.forward()
    assert_close("w", net.blobs["w"].data, [[1, 0], [0, 1], [0.5, 0.5]], atol=1e-30)
    net.blobs["w"].diff[...] = 1
    net.backward()
    assert np.isfinite(net.blobs["logits"].diff).all()


def test_domain_assignment_two_groups_make_the_rows_of_a_batch():
    # The layout of every experiment: sources with a branch, the target with constant logits, joined by Concat.
    text = inputs(source=(4, 2), target=(3, 1), x=(7, 5, 2))
    text += python_layer("DomainAssignmentLayer", ["source"], "w_source", {"num_domains": 3})
    text += python_layer("DomainAssignmentLayer", ["target"], "w_target", {"num_domains": 3, "first": 2})
    text += (
        'layer { name: "w" type: "Concat" bottom: "w_source" bottom: "w_target" top: "w" concat_param { axis: 0 } }\n'
    )
    net = make_net(text + mda("xw", "y", 3))
    source, x, g = numbers(4, 2), numbers(7, 5, 2), numbers(7, 5, 2)
    fill(net, source=source, target=np.full((3, 1), 123), x=x)
    net.forward()
    net.blobs["y"].diff[...] = g
    net.backward()

    z = source.astype(np.float64)

    def rows():
        w = np.zeros((7, 3))
        w[:4] = reference.assignment(z, None, 3, 0)
        w[4:, 2] = 1
        return w

    def loss():
        return float((reference.mda(x.astype(np.float64), rows(), 1e-5) * g).sum())

    assert_close("w", net.blobs["w"].data, rows(), atol=1e-6)
    assert_close("dlogits", net.blobs["source"].diff, numeric_gradient(loss, z), atol=1e-4)
    assert_close("dlogits of the target", net.blobs["target"].diff, np.zeros((3, 1)), atol=1e-6)
