"""Formulas that are written twice over, by terms and by powers: the same function of x."""

import numpy as np

from caffe_layers import _formulas as formulas
from tests.caffe_layers.reference import assert_close


def test_the_weight_gradient_by_powers_of_x():
    x, grad, mean, variance, inverse, grad_mean, grad_variance = np.random.default_rng(0).normal(size=(7, 50))
    by_powers = inverse * formulas.about(grad * x, mean, grad)
    by_powers += x * formulas.linear(grad_mean, grad_variance, mean) + x * x * grad_variance
    by_powers += formulas.constant(grad_mean, grad_variance, mean, variance)
    got = formulas.weight_gradient_term(x, grad, mean, variance, inverse, grad_mean, grad_variance)
    assert_close("dw", got, by_powers, atol=1e-13)
