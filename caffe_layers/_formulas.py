"""The formulas of the mDA layer and of softmax that CPU and GPU share, one number at a time.

Each function is one expression of its arguments. NumPy evaluates it over arrays, for ``_cpu_mda`` and
``_cpu_softmax``; numba compiles it into the kernels of the CPU, and ``_cuda_source`` writes it into those of a GPU. So
there is one place to get a formula wrong. Allowed are + - * /, numbers, the functions imported below, and other
formulas of this module.

Symbols are those of ``_cpu_mda``: m, v a row's mean and variance; μ, σ², r those of a domain; G = Σ_s g.
"""

from numpy import exp, log, maximum, minimum, sqrt


def spread(row_variance, row_mean, mean):
    """v + (m - μ)²: what a row adds to its domain's variance (Eq. 1, by the law of total variance)."""
    return row_variance + (row_mean - mean) * (row_mean - mean)


def inverse_deviation(variance, eps):
    """r = (σ² + ε)^-½."""
    return 1 / sqrt(variance + eps)


def affine_offset(scale, centre, shift):
    """Return the offset in y = scale (x - centre) + offset, where ``shift`` is Σ_d w r μ (Eq. 3)."""
    return scale * centre - shift


def about(grad_dot, shift, grad_sum):
    """Σ_s g (x - o - shift) from Σ_s g (x - o) and G."""
    return grad_dot - shift * grad_sum


def mean_gradient(inverse, grad_sum):
    """∂μ/W from Σ_i α_i G_i."""
    return -inverse * grad_sum


def variance_gradient(inverse, grad_dot):
    """∂σ²/W from Σ_i α_i Σ_s g (x - μ)."""
    return -0.5 * (inverse * inverse * inverse) * grad_dot


def weight_gradient_term(x, grad, mean, variance, inverse, grad_mean, grad_variance):
    """Return what one value adds to ∂w of a domain: (r g + ∂μ/W) (x - μ) + ∂σ²/W ((x - μ)² - σ²)."""
    return (inverse * grad + grad_mean) * (x - mean) + grad_variance * ((x - mean) * (x - mean) - variance)


def linear(grad_mean, grad_variance, mean):
    """Return the factor of x in ``weight_gradient_term``, for g = 0. Divided by S: a domain's part of ∂x for x = 0."""
    return grad_mean - 2 * grad_variance * mean


def constant(grad_mean, grad_variance, mean, variance):
    """``weight_gradient_term`` for g = 0 and x = 0."""
    return grad_variance * (mean * mean - variance) - grad_mean * mean


def input_slope(grad_variance, size):
    """Return the factor of x in ∂x, from one domain."""
    return grad_variance * (2 / size)


def unbiased_factor(count):
    """m / (m - 1), for m > 1; at most 2, its value for m = 2."""
    return minimum(count / (count - 1), 2)


def folded(total, fraction, value):
    """Return a running sum with one more batch in it."""
    return total * fraction + value


def softmax_gradient(p, grad, expected):
    """∂L/∂logit from p, ∂L/∂p and Σ p ∂L/∂p."""
    return p * (grad - expected)


def log_probability(logit, largest, total):
    """log p, where ``total`` is Σ exp(logit - largest)."""
    return logit - largest - log(total)


def finite_log(log_p):
    """log p, or -1000 where p is 0: then p log p is 0, as it should be. With minus infinity it would be NaN."""
    return maximum(log_p, -1000)


def surprise(log_p):
    """-p log p, one term of the entropy."""
    return -exp(log_p) * finite_log(log_p)


def entropy_gradient(log_p, entropy):
    """∂ entropy / ∂logit."""
    return -exp(log_p) * (finite_log(log_p) + entropy)
