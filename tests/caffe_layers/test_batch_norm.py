"""One domain is batch normalisation: MDALayer with D = 1 beside Caffe's own BatchNorm."""

import caffe
import numpy as np
import pytest

from tests.caffe_layers.nets import fill, inputs, make_net, mda
from tests.caffe_layers.reference import assert_close

pytestmark = pytest.mark.usefixtures("where")

BATCH_NORM = 'layer {{ name: "y" type: "BatchNorm" bottom: "x" top: "y" batch_norm_param {{ {} }} }}'


def pair(shape, phase, rows):
    ours = inputs(x=shape) + mda("x", "y", 1, moving_average_fraction=0.9)
    if rows:
        ours = inputs(x=shape, w=(shape[0], 1)) + mda("xw", "y", 1, moving_average_fraction=0.9)
    theirs = inputs(x=shape) + BATCH_NORM.format("moving_average_fraction: 0.9")
    nets = make_net(ours, phase), make_net(theirs, phase)
    if rows:
        fill(nets[0], w=1)
    return nets


@pytest.mark.parametrize("shape", [(8, 5, 6, 4), (16, 7), (4, 3, 1, 1), (2, 2, 40, 40)])
@pytest.mark.parametrize("rows", [True, False])
def test_batch_norm_outputs_gradients_and_statistics(shape, rows):
    ours, theirs = pair(shape, caffe.TRAIN, rows)
    rng = np.random.default_rng(shape)
    for _ in range(3):
        x = (rng.normal(size=shape) * 3 + 1).astype(np.float32)
        g = rng.normal(size=shape).astype(np.float32)
        for net in (ours, theirs):
            fill(net, x=x)
            net.forward()
            net.blobs["y"].diff[...] = g
            net.backward()
        assert_close("y", ours.blobs["y"].data, theirs.blobs["y"].data, atol=1e-5)
        assert_close("dx", ours.blobs["x"].diff, theirs.blobs["x"].diff, atol=1e-5)
    for name, mine, its in zip(("Σ mean", "Σ variance", "divisor"), ours.params["y"], theirs.params["y"], strict=True):
        assert_close(name, mine.data.ravel(), its.data.ravel(), rtol=1e-5, atol=1e-5)

    tests = pair(shape, caffe.TEST, rows)
    x = rng.normal(size=shape).astype(np.float32)
    for net, trained in zip(tests, (ours, theirs), strict=True):
        net.share_with(trained)
        fill(net, x=x)
        net.forward()
        net.blobs["y"].diff[...] = x
        net.backward()
    assert_close("y in TEST", tests[0].blobs["y"].data, tests[1].blobs["y"].data, atol=1e-5)
    assert_close("dx in TEST", tests[0].blobs["x"].diff, tests[1].blobs["x"].diff, atol=1e-5)


def test_batch_norm_a_batch_norm_models_statistics_load_into_one_domain():
    # The blobs' convention is Caffe's: a pretrained net's BatchNorm can be copied over, domain by domain.
    shape = (8, 5, 6, 4)
    _, theirs = pair(shape, caffe.TRAIN, False)
    x = np.random.default_rng(0).normal(size=shape) * 2 - 1
    fill(theirs, x=x)
    theirs.forward()
    ours = make_net(inputs(x=shape) + mda("x", "y", 3, domain=1), caffe.TEST)
    for blob, value in zip(ours.params["y"], theirs.params["y"], strict=True):
        blob.data[1] = value.data.reshape(blob.data[1].shape)
    after = make_net(inputs(x=shape) + BATCH_NORM.format(""), caffe.TEST)
    after.share_with(theirs)
    for net in (ours, after):
        fill(net, x=x)
        net.forward()
    assert_close("y", ours.blobs["y"].data, after.blobs["y"].data, atol=1e-5)
