"""MDALayer inside real Caffe nets."""

import tracemalloc

import caffe
import numpy as np
import pytest

from caffe_layers import _backend, _bottoms
from tests.caffe_layers import reference
from tests.caffe_layers.nets import fill, forward_twice, inputs, make_net, mda, python_object
from tests.caffe_layers.reference import assert_close, flat
from tests.caffe_layers.steps import float64_steps, random_rows, run

pytestmark = pytest.mark.usefixtures("where")

SHAPES = [(6, 3, 4, 5), (6, 3), (6, 3, 7), (5, 2, 1, 1), (4, 2, 2, 3, 2)]


def problem(shape, domains=3, seed=0, **kwargs):
    rng = np.random.default_rng(seed)
    x, g = rng.normal(size=(2, *shape)).astype(np.float32)
    return x * 2 + 1, random_rows(rng, shape[0], domains, **kwargs).astype(np.float32), g


def forward(net, **arrays):
    fill(net, **arrays)
    net.forward()
    return net.blobs["y"].data.copy()


def backward(net, g):
    for blob in net.blobs.values():
        blob.diff.fill(7)  # what stays 7 was not written
    net.blobs["y"].diff[...] = g
    net.backward()


def blobs(net, name="y"):
    return [blob.data.copy() for blob in net.params[name]]


@pytest.mark.parametrize("shape", SHAPES)
def test_mda_forward_and_backward(shape):
    x, w, g = problem(shape, empty=1)
    net = make_net(inputs(x=shape, w=w.shape) + mda("xw", "y", 3, eps=1e-4))
    y = forward(net, x=x, w=w)
    assert y.shape == shape
    assert_close("y", flat(y), reference.mda(flat(x), w.astype(np.float64), 1e-4), atol=3e-6)
    backward(net, g)
    want = run(float64_steps(flat(x)), flat(x), w.astype(np.float64), flat(g), 1e-4)
    assert_close("dx", flat(net.blobs["x"].diff), want.dx, atol=1e-5)
    assert_close("dw", net.blobs["w"].diff, want.dw, atol=1e-4)
    assert_close("top's gradient", net.blobs["y"].diff, g)


@pytest.mark.parametrize("shape", [(6, 3, 4, 5), (6, 3)])
@pytest.mark.parametrize(("domain", "column"), [(None, 3), (0, 0), (2, 2)])
def test_mda_x_alone_belongs_to_one_domain(shape, domain, column):
    x, _, g = problem(shape)
    params = {} if domain is None else {"domain": domain}
    net = make_net(inputs(x=shape) + mda("x", "y", 4, **params))
    ones = np.ones((shape[0], 1))
    want = run(float64_steps(flat(x)), flat(x), ones, flat(g))
    assert_close("y", flat(forward(net, x=x)), want.y, atol=3e-6)
    backward(net, g)
    assert_close("dx", flat(net.blobs["x"].diff), want.dx, atol=1e-5)
    mean, variance, divisor = blobs(net)
    size = flat(x)[0, 0].size * shape[0]
    assert_close("Σ mean", mean[column], want.mean[0], atol=1e-6)
    assert_close("Σ variance", variance[column], want.variance[0] * size / (size - 1), rtol=1e-5)
    assert_close("divisor", divisor, np.eye(4)[column])
    others = np.arange(4) != column
    assert not mean[others].any()
    assert not variance[others].any()


@pytest.mark.parametrize("shape", [(6, 3, 4, 5), (6, 3)])
def test_mda_running_statistics_over_batches(shape):
    net = make_net(inputs(x=shape, w=(6, 3)) + mda("xw", "y", 3, moving_average_fraction=0.8))
    mean, variance, divisor = np.zeros((3, 3)), np.zeros((3, 3)), np.zeros(3)
    for batch in range(4):
        x, w, _ = problem(shape, seed=batch, empty=batch % 2)  # the first domain is in every other batch
        forward(net, x=x, w=w)
        w = w.astype(np.float64)
        seen = w.sum(axis=0) > 0
        batch_mean, batch_variance = reference.domain_statistics(flat(x), w)
        count = w.sum(axis=0) * flat(x).shape[2]
        for d in np.flatnonzero(seen):
            factor = min(count[d] / (count[d] - 1), 2) if count[d] > 1 else 1
            mean[d] = 0.8 * mean[d] + batch_mean[d]
            variance[d] = 0.8 * variance[d] + factor * batch_variance[d]
            divisor[d] = 0.8 * divisor[d] + 1
    for name, got, want in zip(("Σ mean", "Σ variance", "divisor"), blobs(net), (mean, variance, divisor), strict=True):
        assert_close(name, got, want, rtol=1e-5, atol=1e-5)


def trained(shape):
    """A net that has seen three batches, none of them with the first domain."""
    net = make_net(inputs(x=shape, w=(shape[0], 3)) + mda("xw", "y", 3))
    for batch in range(3):
        x, w, _ = problem(shape, seed=batch, empty=1)
        forward(net, x=x, w=w)
    return net


@pytest.mark.parametrize("shape", [(6, 3, 4, 5), (6, 3)])
def test_mda_the_test_phase_uses_shared_running_statistics(shape):
    train = trained(shape)
    test = make_net(inputs(x=shape, w=(6, 3)) + mda("xw", "y", 3, eps=0.1), caffe.TEST)
    test.share_with(train)
    mean_sum, variance_sum, divisor = blobs(train)
    assert divisor[0] == 0  # a domain that was never seen has mean 0 and variance 0
    fixed = [total / np.maximum(divisor, 1)[:, None] for total in (mean_sum, variance_sum)]
    x, w, g = problem(shape, seed=9)
    before = blobs(test)
    y = forward(test, x=x, w=w)
    assert_close("y", flat(y), reference.normalise(flat(x), w.astype(np.float64), *fixed, 0.1), atol=1e-5)
    backward(test, g)
    want = run(float64_steps(flat(x)), flat(x), w.astype(np.float64), flat(g), 0.1, fixed=fixed)
    assert_close("dx", flat(test.blobs["x"].diff), want.dx, atol=1e-5)
    assert_close("dw", test.blobs["w"].diff, want.dw, atol=1e-4)
    assert all(np.array_equal(a, b) for a, b in zip(before, blobs(test), strict=True))

    # Shared means shared: the next training batch moves what the test net sees.
    forward(train, x=x, w=w)
    assert not np.array_equal(forward(test, x=x, w=w), y)


@pytest.mark.parametrize("phase", [caffe.TRAIN, caffe.TEST])
def test_mda_use_global_stats_overrides_the_phase(phase):
    shape = (6, 3, 4, 5)
    source = trained(shape)
    x, w, _ = problem(shape, seed=9)
    nets = {
        use: make_net(inputs(x=shape, w=w.shape) + mda("xw", "y", 3, use_global_stats=use), phase)
        for use in (True, False)
    }
    for net in nets.values():
        for blob, value in zip(net.params["y"], blobs(source), strict=True):
            blob.data[...] = value
    batch = reference.mda(flat(x), w.astype(np.float64), 1e-5)
    assert_close("batch statistics", flat(forward(nets[False], x=x, w=w)), batch, atol=3e-6)
    assert np.abs(flat(forward(nets[True], x=x, w=w)) - batch).max() > 0.01
    assert_close("divisor kept", blobs(nets[True])[2], blobs(source)[2])
    assert_close("divisor moved", blobs(nets[False])[2], 0.999 * blobs(source)[2] + 1, rtol=1e-6)


def test_mda_reshaping_remakes_the_buffers_and_only_then():
    net = make_net(inputs(x=(6, 3, 4, 5), w=(6, 3)) + mda("xw", "y", 3))
    layer = python_object(net, "y")
    backend, kept = layer._backend, layer._backend.last
    for seed in range(2):
        x, w, _ = problem((6, 3, 4, 5), seed=seed)
        forward(net, x=x, w=w)
        assert layer._backend is backend
        assert layer._backend.last is kept
    for shape in [(9, 3, 2, 2), (2, 3), (6, 3, 4, 5)]:
        x, w, g = problem(shape)
        net.blobs["x"].reshape(*shape)
        net.blobs["w"].reshape(*w.shape)
        assert_close(
            f"y {shape}", flat(forward(net, x=x, w=w)), reference.mda(flat(x), w.astype(np.float64), 1e-5), atol=3e-6
        )
        backward(net, g)
        want = run(float64_steps(flat(x)), flat(x), w.astype(np.float64), flat(g))
        assert_close(f"dx {shape}", flat(net.blobs["x"].diff), want.dx, atol=1e-5)


def test_mda_two_layers_do_not_disturb_each_other():
    # They share working memory: one's forward must not change the other's backward.
    shapes = {"a": (6, 3, 8, 8), "b": (6, 5, 4, 4)}
    text = inputs(w=(6, 3), **shapes) + mda("aw", "ya", 3) + mda("bw", "yb", 3)
    net = make_net(text)
    rng = np.random.default_rng(0)
    w = random_rows(rng, 6, 3).astype(np.float32)
    data = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    grads = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    fill(net, w=w, **data)
    net.forward()
    for name, g in grads.items():
        net.blobs[f"y{name}"].diff[...] = g
    net.backward()
    for name, x in data.items():
        want = run(float64_steps(flat(x)), flat(x), w.astype(np.float64), flat(grads[name]))
        assert_close(f"y{name}", flat(net.blobs[f"y{name}"].data), want.y, atol=3e-6)
        assert_close(f"d{name}", flat(net.blobs[name].diff), want.dx, atol=1e-5)


@pytest.mark.program
@pytest.mark.cpu_only
@pytest.mark.parametrize(("shape", "share"), [((32, 8, 32, 32), 0.03), ((384, 600), 0.15)])
def test_mda_nothing_of_the_size_of_x_is_allocated(shape, share):
    x, w, g = problem(shape)
    net = make_net(inputs(x=shape, w=w.shape) + mda("xw", "y", 3))
    for _ in range(2):
        forward(net, x=x, w=w)
        backward(net, g)
    tracemalloc.start()
    try:
        net.forward()
        net.backward()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # What is left are D×C and N×D matrices; the statistics alone are 1.6 % of an x of 384 rows each.
    assert peak < share * x.nbytes


def test_mda_errors_of_tops_and_of_later_shapes():
    text = inputs(x=(6, 4)) + mda("x", "y", 3)
    with pytest.raises(ValueError, match='MDALayer "y": got 2 tops; expected 1'):
        make_net(text.replace('top: "y"', 'top: "y" top: "z"'))
    net = make_net(text)
    net.blobs["x"].reshape(6, 5)
    with pytest.raises(ValueError, match=r'MDALayer "y": x has 5 channels .* of 4'):
        net.reshape()
    net = make_net(inputs(x=(6, 4)) + mda("x", "x", 3, name="norm"))
    with pytest.raises(ValueError, match=r'MDALayer "norm": .* one blob; expected .*\(not in place\)'):
        net.forward()


@pytest.mark.parametrize(
    ("row", "word"),
    [
        ([0.5, 0.2, 0.2], "0.9"),
        ([1.5, -0.5, 0.0], "-0.5"),
        ([np.nan, 0.5, 0.5], "nan"),
    ],
)
def test_mda_rows_of_w_that_are_no_probabilities(row, word):
    x, w, _ = problem((6, 3))
    net = make_net(inputs(x=x.shape, w=w.shape) + mda("xw", "y", 3))
    w[4] = row
    fill(net, x=x, w=w)
    with pytest.raises(ValueError) as error:
        forward_twice(net)
    message = str(error.value)
    assert message.startswith(f"{_bottoms.role('MDALayer', python_object(net, 'y'))}: row 4 of w is ")
    assert "expected probabilities that sum to 1" in message and word in message
    assert not any(blob.any() for blob in blobs(net)), "a refused batch must not enter the statistics"
    w[4] = [1, 0, 0]
    forward(net, x=x, w=w)  # which is told of no other batch
    assert blobs(net)[2].all()


@pytest.mark.parametrize("shape", [(6, 3, 4, 5), (6, 3)])
@pytest.mark.parametrize("cancelled", [[-0.04, 0.04, 0, 0, 0, 0], [-0.04, 0.05, -0.03, 0.03, 0, 0]])
def test_mda_a_column_of_w_whose_small_entries_cancel(shape, cancelled):
    x, _, _ = problem(shape)
    w = np.zeros((6, 3), np.float32)
    w[:, 1] = cancelled
    w[:, 0] = 1 - w[:, 1]
    net = make_net(inputs(x=shape, w=w.shape) + mda("xw", "y", 3))
    fill(net, x=x, w=w)
    with pytest.raises(ValueError, match=r"MDALayer.*: column 1 of w sums to .*; expected probabilities"):
        forward_twice(net)
    assert not any(blob.any() for blob in blobs(net)), "a refused batch must not enter the statistics"


@pytest.mark.parametrize("shape", [(6, 3, 4, 5), (6, 3)])
def test_mda_rows_beside_the_simplex_give_no_nan(shape):
    # An outlier that counts a little less than nothing would make a variance of less than nothing.
    x, w, g = problem(shape)
    x[0] = 1000
    w[0] = [1.04, -0.02, -0.02]
    net = make_net(inputs(x=shape, w=w.shape) + mda("xw", "y", 3))
    assert np.isfinite(forward(net, x=x, w=w)).all()
    backward(net, g)
    assert all(np.isfinite(net.blobs[name].diff).all() for name in "xw")


@pytest.mark.parametrize("shape", [(6, 3, 4, 5), (6, 3)])
@pytest.mark.parametrize("value", [np.nan, np.inf, 1e30])
def test_mda_a_batch_that_is_not_finite_does_not_enter_the_statistics(shape, value):
    net = trained(shape)
    before = blobs(net)
    x, w, _ = problem(shape, seed=9)
    x[3, 1] = value
    fill(net, x=x, w=w)
    on_gpu = _backend.current() is not None
    then = "its other channels have taken this batch in" if on_gpu else "its running statistics are as they were before"
    message = rf"MDALayer.*: the variance of x in channel 1.*; expected x to be finite \({then}"
    with pytest.raises(ValueError, match=message):
        forward_twice(net)
    after = blobs(net)
    assert all(np.isfinite(blob).all() for blob in after)
    if not on_gpu:  # which nothing waits for, and which has folded in the other channels
        assert all(np.array_equal(got, want) for got, want in zip(after, before, strict=True))
