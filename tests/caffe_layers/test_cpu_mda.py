"""The mathematics in float64 against loops written from the paper, and every gradient against finite differences."""

import numpy as np
import pytest

from caffe_layers import _formulas as formulas
from caffe_layers import _kernel_cache
from tests.caffe_layers import reference
from tests.caffe_layers.reference import assert_close, numeric_gradient
from tests.caffe_layers.steps import float64_steps, random_rows, run

domain_kernels = _kernel_cache.load("_domain_kernels")

CASES = [
    # samples, channels, size, domains, empty, share of one-hot rows, offset of x
    (5, 3, 4, 3, 0, 0.0, 0.0),
    (6, 2, 3, 4, 1, 0.5, 2.0),
    (4, 3, 1, 2, 0, 0.0, 0.0),
    (6, 2, 1, 3, 1, 0.4, -3.0),
    (3, 2, 5, 1, 0, 0.0, 1.0),
    (2, 2, 2, 5, 2, 1.0, 0.0),
    (1, 3, 4, 2, 0, 0.0, 0.5),
]


def problem(samples, channels, size, domains, empty, hard, offset):
    rng = np.random.default_rng([samples, channels, size, domains])
    x = rng.normal(size=(samples, channels, size)) * rng.uniform(0.5, 3, (1, channels, 1)) + offset
    return x, random_rows(rng, samples, domains, empty=empty, hard=hard), rng.normal(size=x.shape)


@pytest.mark.parametrize("case", CASES)
def test_cpu_mda_forward_is_the_papers(case):
    x, w, g = problem(*case)
    got = run(float64_steps(x), x, w, g)
    mean, variance = reference.domain_statistics(x, w)
    assert_close("mean", got.mean, mean, rtol=1e-12, atol=1e-12)
    assert_close("variance", got.variance, variance, rtol=1e-12, atol=1e-12)
    # The kernels' centre is float32, but the same one throughout: it leaves no trace.
    assert_close("y", got.y, reference.mda(x, w, 1e-5), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("case", CASES)
def test_cpu_mda_gradients_through_the_batch(case):
    x, w, g = problem(*case)
    got = run(float64_steps(x), x, w, g)

    def loss():
        return float((reference.mda(x, w, 1e-5) * g).sum())

    scale = got.inverse.max()
    assert_close("dx", got.dx, numeric_gradient(loss, x), atol=1e-6 * scale)
    expected = numeric_gradient(loss, w)
    # A step off zero gives an empty domain mass; the gradient there is defined as zero.
    expected[:, got.mass == 0] = 0
    assert_close("dw", got.dw, expected, atol=3e-6 * scale)


@pytest.mark.parametrize("case", CASES)
def test_cpu_mda_gradients_with_fixed_statistics(case):
    x, w, g = problem(*case)
    rng = np.random.default_rng(7)
    fixed = rng.normal(size=(w.shape[1], x.shape[1])), rng.uniform(0, 2, (w.shape[1], x.shape[1]))
    fixed[1][0, 0] = 0
    got = run(float64_steps(x), x, w, g, fixed=fixed)

    def loss():
        return float((reference.normalise(x, w, *fixed, 1e-5) * g).sum())

    scale = got.inverse.max()
    assert_close("y", got.y, reference.normalise(x, w, *fixed, 1e-5), atol=1e-10 * scale)
    assert_close("dx", got.dx, numeric_gradient(loss, x), atol=1e-6 * scale)
    assert_close("dw", got.dw, numeric_gradient(loss, w, 1e-5), atol=1e-6 * scale)


def test_cpu_mda_domains_far_apart_keep_their_digits():
    # Two domains of deviation 1e-3 at 0 and 1e5: a difference of squares would lose the variance altogether.
    rng = np.random.default_rng(0)
    x = rng.normal(size=(6, 1, 50)) * 1e-3
    x[3:] += 1e5
    w = np.repeat(np.eye(2), 3, axis=0)
    got = run(float64_steps(x), x, w, x, eps=1e-12)
    assert_close("variance", got.variance[:, 0], [x[:3].var(), x[3:].var()], rtol=1e-9)


def test_cpu_mda_shares_of_vanishing_mass_stay_finite():
    w = np.array([[1.0, 1e-300], [1.0, 3e-300], [1.0, 0.0]])
    share, mass = domain_kernels.domain_shares(w)
    assert_close("share", share, [[1 / 3, 0.25], [1 / 3, 0.75], [1 / 3, 0]], rtol=1e-12)
    assert_close("mass", mass, [3, 4e-300], rtol=1e-12)


def test_cpu_mda_shares_of_an_empty_domain_are_zero():
    share, mass = domain_kernels.domain_shares(np.array([[1.0, 0.0], [1.0, 0.0]]))
    assert_close("share", share, [[0.5, 0], [0.5, 0]])
    assert_close("mass", mass, [2, 0])


def unbiased_factor(masses, size):
    return np.array([domain_kernels.unbiased_factor(mass, size) for mass in masses])


def test_cpu_mda_unbiased_factor():
    mass = [0.0, 0.25, 0.5, 1.0, 2.5]
    assert_close("factor at S = 4", unbiased_factor(mass, 4), [1, 1, 2, 4 / 3, 10 / 9], rtol=1e-12)
    assert_close("factor at S = 1", unbiased_factor(mass, 1), [1, 1, 1, 1, 5 / 3], rtol=1e-12)
    assert_close("just above one value", unbiased_factor([1 + 1e-9, 1.5, 2.0], 1), [2, 2, 2])


def test_cpu_mda_the_weight_gradient_by_powers_of_x():
    """Formulas that are written by terms and by powers are the same function of x."""
    x, grad, mean, variance, inverse, grad_mean, grad_variance = np.random.default_rng(0).normal(size=(7, 50))
    by_powers = inverse * formulas.about(grad * x, mean, grad)
    by_powers += x * formulas.linear(grad_mean, grad_variance, mean) + x * x * grad_variance
    by_powers += formulas.constant(grad_mean, grad_variance, mean, variance)
    got = formulas.weight_gradient_term(x, grad, mean, variance, inverse, grad_mean, grad_variance)
    assert_close("dw", got, by_powers, atol=1e-13)
