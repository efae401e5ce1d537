"""What must hold whatever the numbers: relations between results, with no reference at all."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from caffe_layers import _kernel_cache
from tests.caffe_layers.reference import assert_close
from tests.caffe_layers.steps import cpu_steps, random_rows, run

settings_ = settings(deadline=None, derandomize=True, max_examples=40)
SEEDS = st.integers(0, 2**32 - 1)
SIZES = st.sampled_from([1, 4, 100])


def make(seed, size, samples=8, domains=3, **kwargs):
    rng = np.random.default_rng(seed)
    x, g = rng.normal(size=(2, samples, 5, size)).astype(np.float32)
    return x, random_rows(rng, samples, domains, **kwargs), g


def batch_norm(x, eps=1e-5):
    mean = x.mean(axis=(0, 2), dtype=np.float64)[:, None]
    return (x - mean) / np.sqrt(x.var(axis=(0, 2), dtype=np.float64)[:, None] + eps)


@settings_
@given(SEEDS, SIZES)
def test_one_domain_is_batch_normalisation(seed, size):
    x, w, g = make(seed, size, domains=1)
    got = run(cpu_steps(x, w), x, w, g)
    assert_close("y", got.y, batch_norm(x), atol=1e-5)
    # Rows that must sum to 1 leave w nothing to say: its gradient is Σ g y minus what the statistics give back.
    assert_close("Σ dx", got.dx.sum(axis=(0, 2), dtype=np.float64), np.zeros(5), atol=1e-3)


@settings_
@given(SEEDS, SIZES, st.floats(-1e4, 1e4))
def test_a_shift_of_x_changes_nothing(seed, size, shift):
    x, w, g = make(seed, size)
    # Multiples of 1/64: the shifted values are exact in float32.
    x = (np.round(x * 64) / 64).astype(np.float32)
    moved = x + np.float32(round(shift))
    got, after = run(cpu_steps(x, w), x, w, g), run(cpu_steps(x, w), moved, w, g)
    assert_close("y", after.y, got.y, atol=2e-5)
    assert_close("dx", after.dx, got.dx, atol=2e-4)
    assert_close("dw", after.dw, got.dw, atol=3e-3)


@settings_
@given(SEEDS, SIZES)
def test_an_empty_domain_is_as_if_it_were_not_there(seed, size):
    x, w, g = make(seed, size, domains=3, empty=1)
    got = run(cpu_steps(x, w), x, w, g)
    without = run(cpu_steps(x, w[:, 1:]), x, np.ascontiguousarray(w[:, 1:]), g)
    assert_close("y", got.y, without.y, atol=1e-5)
    assert_close("dx", got.dx, without.dx, atol=1e-4)
    assert_close("dw", got.dw[:, 1:], without.dw, atol=2e-3)
    assert_close("dw of the empty domain", got.dw[:, 0], np.zeros(8))
    assert_close("mean of the empty domain", got.mean[0], np.zeros(5))


@pytest.mark.parametrize("size", [1, 5])
def test_one_row_per_domain(size):
    # S = 1: each row is its domain's mean, so y and every gradient vanish.
    x, _, g = make(0, size, samples=3)
    got = run(cpu_steps(x, np.eye(3)), x, np.eye(3), g)
    expected = np.stack([batch_norm(x[i : i + 1])[0] for i in range(3)])
    assert_close("y", got.y, expected, atol=1e-5)
    assert np.isfinite(got.dx).all()
    if size == 1:
        assert_close("variance", got.variance, np.zeros((3, 5)))
        assert_close("dx", got.dx, np.zeros(x.shape), atol=1e-3)
        blobs = tuple(np.zeros(shape, np.float32) for shape in [(3, 5), (3, 5), (3,)])
        _kernel_cache.load("_domain_kernels").update_running(*blobs, got.mean, got.variance, got.mass, 1, 0.9)
        assert all(np.isfinite(blob).all() for blob in blobs)
