"""EntropyLossLayer inside real Caffe nets."""

import numpy as np
import pytest

from tests.caffe_layers import reference
from tests.caffe_layers.nets import fill, inputs, make_net, python_layer
from tests.caffe_layers.reference import assert_close, flat, numeric_gradient

pytestmark = pytest.mark.usefixtures("where")


def layer(bottoms, weight=0.3, params=None):
    return python_layer("EntropyLossLayer", bottoms, "h", params, extra=f"loss_weight: {weight}")


OF = {"predictions": (None, reference.entropy), "their mean": ({"of_mean": True}, reference.entropy_of_mean)}
"""The parameters of each of the two losses, and what it should be."""


def numbers(*shape):
    return (np.random.default_rng(shape).normal(size=shape) * 2).astype(np.float32)


@pytest.mark.parametrize("shape", [(5, 3), (5, 1), (1, 4), (4, 3, 2), (3, 2, 2, 3), (4, 3, 1, 1)])
@pytest.mark.parametrize("known", [None, "some", "all"])
@pytest.mark.parametrize("of", OF)
def test_entropy_loss_forward_and_backward(of, shape, known):
    params, expected = OF[of]
    logits = numbers(*shape)
    labels = None if known is None else [i % 4 if known == "all" or i % 2 == 0 else -1 for i in range(shape[0])]
    shapes = {"logits": shape} | ({} if labels is None else {"labels": (shape[0],)})
    net = make_net(inputs(**shapes) + layer(list(shapes), params=params))
    fill(net, logits=logits, **({} if labels is None else {"labels": labels}))
    loss = net.forward()["h"]
    assert loss.shape == ()
    z = flat(logits)
    assert_close("h", loss, expected(z, labels), rtol=1e-5)
    for name in shapes:
        net.blobs[name].diff.fill(7)
    net.backward()
    want = 0.3 * numeric_gradient(lambda: expected(z, labels), z)
    assert_close("dlogits", net.blobs["logits"].diff, want.reshape(shape), atol=1e-6)
    if labels is not None:
        assert_close("dlabels", net.blobs["labels"].diff, np.zeros(shape[0]))


@pytest.mark.parametrize("of", OF)
def test_entropy_loss_no_row_counts(of):
    # A batch whose every domain label is known: the loss is 0, not 0 / 0.
    net = make_net(inputs(logits=(3, 2), labels=(3,)) + layer(["logits", "labels"], params=OF[of][0]))
    fill(net, logits=numbers(3, 2), labels=[0, 1, 7])
    assert net.forward()["h"] == 0
    net.backward()
    assert not net.blobs["logits"].diff.any()


@pytest.mark.parametrize("size", [80, 1e4, 3e38])
def test_entropy_loss_extreme_logits(size):
    net = make_net(inputs(logits=(2, 3)) + layer(["logits"]))
    fill(net, logits=[[size, 0, -size], [-size, -size, -size]])
    assert_close("h", net.forward()["h"], np.log(3) / 2, rtol=1e-6)
    net.backward()
    assert_close("dlogits", net.blobs["logits"].diff, np.zeros((2, 3)), atol=1e-7)


def test_entropy_loss_extreme_logits_of_a_mean():
    # Predictions are sure, and those of the third class have the probability 0.
    net = make_net(inputs(logits=(4, 3)) + layer(["logits"], params={"of_mean": True}))
    fill(net, logits=[[3e38, 0, -3e38], [3e38, 0, -3e38], [3e38, 0, -3e38], [0, 3e38, -3e38]])
    assert_close("h", net.forward()["h"], -(0.75 * np.log(0.75) + 0.25 * np.log(0.25)), rtol=1e-6)
    net.backward()
    assert_close("dlogits", net.blobs["logits"].diff, np.zeros((4, 3)), atol=1e-7)


def test_entropy_loss_logits_of_minus_infinity():
    # A class that is masked out: 0 log 0 is 0.
    logits = numbers(3, 4)
    masked = np.insert(logits, 2, -np.inf, axis=1)
    net = make_net(inputs(logits=masked.shape) + layer(["logits"], 1))
    fill(net, logits=masked)
    assert_close("h", net.forward()["h"], reference.entropy(flat(logits)), rtol=1e-5)
    net.backward()
    z = flat(logits)
    want = np.insert(numeric_gradient(lambda: reference.entropy(z), z)[:, :, 0], 2, 0, axis=1)
    assert_close("dlogits", net.blobs["logits"].diff, want, atol=1e-6)


@pytest.mark.parametrize("of", OF)
def test_entropy_loss_nan_is_not_hidden(of):
    net = make_net(inputs(logits=(2, 3)) + layer(["logits"], params=OF[of][0]))
    fill(net, logits=[[0, np.nan, 0], [0, 0, 0]])
    assert np.isnan(net.forward()["h"])
