"""The CPU kernels against the same computation in float64, over shapes, domains, scales and offsets."""

from pathlib import Path
from resource import getpagesize

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from caffe_layers import _kernel_cache
from tests.caffe_layers.reference import assert_close
from tests.caffe_layers.steps import cpu_steps, float64_steps, random_rows, run

# Derandomised: the same examples every time. No deadline: a first call may wait for the disk.
settings_ = settings(deadline=None, derandomize=True, max_examples=120)


@st.composite
def problems(draw):
    """x (float32), w, g (float32) and ε. The x of a channel has its own scale and offset, and so has each domain's."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    samples = draw(st.integers(1, 7))
    channels = draw(st.sampled_from([1, 2, 3, 5, 127, 128, 129, 260]))
    size = draw(st.sampled_from([1, 1, 2, 3, 7, 8, 9, 31, 64, 1024, 1031]))
    domains = draw(st.integers(1, 6))
    empty = draw(st.integers(0, domains - 1))
    w = random_rows(rng, samples, domains, empty=empty, hard=draw(st.sampled_from([0.0, 0.5, 1.0])))
    spread = 10.0 ** draw(st.integers(-6, 6))
    offset = draw(st.sampled_from([0.0, 1.0, -30.0, 1e4])) * draw(st.sampled_from([1.0, spread]))
    apart = draw(st.sampled_from([0.0, 1.0, 50.0])) * spread
    x = rng.normal(size=(samples, channels, size)) * spread + offset
    x += (w @ np.arange(domains))[:, None, None] * apart
    g = rng.normal(size=x.shape) * 10.0 ** draw(st.integers(-6, 3))
    return x.astype(np.float32), w, g.astype(np.float32), draw(st.sampled_from([1e-5, 1e-3, 1e-10]))


def assert_same(got, want, x, w, g):
    """Compare two results within what float32 data allows: errors in units of the largest term of each sum."""
    r = np.where(want.mass[:, None] > 0, want.inverse, 0)
    scale = r.max(axis=0)[None, :, None]  # of g -> dx
    z = np.abs(want.inverse[:, None, :, None] * (x.astype(np.float64)[None] - want.mean[:, None, :, None]))
    of_rows = z.max(axis=(2, 3)).T  # in each domain (n×D), also where a row has no part in it
    z = float(np.where((w.T > 0)[:, :, None, None], z, 0).max())
    size = np.abs(g).max()
    # A sum over S positions adds up to as many rounding errors of 2^-24, in blocks of 1,024 over 32 lanes.
    unit = 4e-6
    assert_close("mean", got.mean, want.mean, rtol=1e-6, atol=unit * np.abs(x).max())
    assert_close("variance", got.variance, want.variance, rtol=2e-5, atol=1e-30)
    assert_close("y", got.y, want.y, atol=unit * (1 + z))
    assert_close("dx", got.dx / scale, want.dx / scale, atol=unit * size * (1 + z) ** 2)
    terms = x.shape[1] * x.shape[2]
    # How the variance changes with w_id has the square of the row's own distance from the domain's mean.
    assert_close("dw", got.dw, want.dw, atol=unit * size * terms * (1 + z) * (1 + np.maximum(z, of_rows)) ** 2)


@settings_
@given(problems())
def test_kernels_batch_statistics(problem):
    x, w, g, eps = problem
    got = run(cpu_steps(x, w), x, w, g, eps)
    want = run(float64_steps(x), x.astype(np.float64), w, g.astype(np.float64), eps)
    assert_same(got, want, x, w, g)


@settings_
@given(problems())
def test_kernels_fixed_statistics(problem):
    x, w, g, eps = problem
    # Statistics of about the data's own size, as running ones are.
    share = np.full((w.shape[1], 1), 0.9)
    fixed = x.mean(axis=(0, 2), dtype=np.float64) * share, x.var(axis=(0, 2), dtype=np.float64) * share
    got = run(cpu_steps(x, w), x, w, g, eps, fixed=fixed)
    want = run(float64_steps(x), x.astype(np.float64), w, g.astype(np.float64), eps, fixed=fixed)
    want.mass = got.mass = np.ones(w.shape[1])
    assert_same(got, want, x, w, g)


@pytest.mark.parametrize("size", [1, 5, 1500])
@pytest.mark.parametrize("fixed", [None, (0.5, 2.0)])
def test_kernels_only_what_is_wanted_is_computed(size, fixed):
    rng = np.random.default_rng(size)
    x, g = rng.normal(size=(2, 4, 3, size)).astype(np.float32)
    w = random_rows(rng, 4, 2)
    both = run(cpu_steps(x, w), x, w, g, fixed=fixed)
    only_x = run(cpu_steps(x, w), x, w, g, fixed=fixed, wants="x")
    only_w = run(cpu_steps(x, w), x, w, g, fixed=fixed, wants="w")
    assert only_x.dw is None
    assert only_w.dx is None
    assert_close("dx alone", only_x.dx, both.dx)
    assert_close("dw alone", only_w.dw, both.dw)


@pytest.mark.parametrize("size", [1, 6, 2000])
def test_kernels_a_constant_channel_gives_zero(size):
    x = np.full((4, 3, size), 1234.567, np.float32)
    w = random_rows(np.random.default_rng(0), 4, 3)
    got = run(cpu_steps(x, w), x, w, np.ones_like(x))
    assert_close("variance", got.variance, np.zeros((3, 3)), atol=1e-20)
    assert_close("y", got.y, np.zeros(x.shape), atol=1e-6)
    assert np.isfinite(got.dx).all()
    assert np.isfinite(got.dw).all()


@pytest.mark.parametrize("odd", [1, 7, 500, 3999])
def test_kernels_a_row_that_begins_unlike_its_rest(odd):
    # The kernel's shift comes from the first eighth: the bound on what that costs must hold.
    x = np.random.default_rng(5).normal(size=(3, 2, 4000)).astype(np.float32)
    x[:, :, :odd] -= 3e4
    w = np.full((3, 2), 0.5)
    got = run(cpu_steps(x, w), x, w, x)
    want = run(float64_steps(x), x.astype(np.float64), w, x.astype(np.float64))
    assert_close("mean", got.mean, want.mean, rtol=1e-6)
    assert_close("variance", got.variance, want.variance, rtol=2e-6)


def test_kernels_calls_leave_no_memory_behind():
    kernels = _kernel_cache.load("_row_kernels")
    x, (mean, variance) = np.ones((8, 16), np.float32), np.zeros((2, 8))
    before = None
    for _ in range(2):
        for _ in range(2000):
            kernels.row_moments(x, mean, variance)
        resident = int(Path("/proc/self/statm").read_text().split()[1]) * getpagesize()
        before = before or resident
    assert resident - before < 7 * 2**20  # half of what TBB loses
    assert numba.threading_layer() == "omp"  # it loses nothing with one thread, or where it is not installed
