"""Softmax and entropy in float64 against loops and finite differences."""

import numpy as np
import pytest

from caffe_layers import _cpu_softmax
from tests.caffe_layers import reference
from tests.caffe_layers.reference import assert_close, numeric_gradient


@pytest.fixture
def logits():
    return np.random.default_rng(1).normal(size=(3, 4, 2)) * 2


def test_log_softmax(logits):
    got = np.exp(_cpu_softmax.log_softmax(logits))
    for t in range(2):
        assert_close(f"p at {t}", got[:, :, t], reference.softmax_rows(logits[:, :, t]), rtol=1e-12)


def test_softmax_gradient(logits):
    z = np.ascontiguousarray(logits[:, :, 0])
    g = np.random.default_rng(2).normal(size=z.shape)
    got = _cpu_softmax.softmax_gradient(reference.softmax_rows(z), g)
    expected = numeric_gradient(lambda: float((reference.softmax_rows(z) * g).sum()), z)
    assert_close("dlogits", got, expected, atol=1e-8)


def test_entropy_and_its_gradient(logits):
    log_p = _cpu_softmax.log_softmax(logits)
    assert_close("h", _cpu_softmax.entropy(log_p).mean(), reference.entropy(logits), rtol=1e-12)
    expected = numeric_gradient(lambda: 6 * reference.entropy(logits), logits)
    assert_close("dlogits", _cpu_softmax.entropy_gradient(log_p), expected, atol=1e-8)


def test_a_logit_of_minus_infinity_is_a_class_without_probability():
    z = np.array([[1.0, -np.inf, 2.0], [-np.inf, 0.0, -np.inf]])
    log_p = _cpu_softmax.log_softmax(z)
    assert_close("h", _cpu_softmax.entropy(log_p).mean(), reference.entropy(z[:, :, None]), rtol=1e-12)
    without = _cpu_softmax.entropy_gradient(_cpu_softmax.log_softmax(z[:1, [0, 2]]))
    assert_close("dlogits", _cpu_softmax.entropy_gradient(log_p), [[without[0, 0], 0, without[0, 1]], [0, 0, 0]])


def test_nan_stays():
    log_p = _cpu_softmax.log_softmax(np.array([[np.nan, 0.0]]))
    assert np.isnan(_cpu_softmax.entropy(log_p)).all()


@pytest.mark.parametrize("size", [1e-30, 80.0, 1e4, 3e38])
def test_extreme_logits(size):
    z = np.array([[size, 0.0, -size], [-size, -size, -size]])
    log_p = _cpu_softmax.log_softmax(z)
    assert_close("Σ p", np.exp(log_p).sum(axis=1), [1, 1], rtol=1e-12)
    assert np.isfinite(_cpu_softmax.entropy_gradient(log_p)).all()
    assert_close("uniform row", _cpu_softmax.entropy(log_p)[1], [np.log(3)], rtol=1e-12)
    if size >= 80:
        assert_close("certain row", _cpu_softmax.entropy(log_p)[0], [0], atol=1e-30)
