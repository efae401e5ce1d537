"""The mathematics of the mDA layer on everything smaller than x (paper Eq. 2-4 and their gradients).

NumPy only: it imports neither Caffe nor a kernel library, and runs in whatever precision its arguments have. The
formulas themselves are those of ``_formulas``, which the GPU's kernels compute too.
A backend reduces x to one pair of moments for each row (sample i, channel c), calls these functions, and writes
its output as one affine map per row. Shapes: N samples, C channels, D domains, S positions in a row.

    w           N×D  assignment, rows sum to 1
    share       N×D  α_id = w_id / W_d
    row_mean    N×C  m_ic
    row_variance N×C v_ic = q_ic / S, the mean squared distance to m_ic
    mean, variance, inverse  D×C  μ_dc, σ²_dc and r_dc = (σ²_dc + ε)^-½

Functions that take ``out`` or say "overwrites" work in the caller's arrays, so that a training step allocates
nothing of their size.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from caffe_layers import _formulas as formulas

Array = NDArray[np.floating]


class StatisticsGradient(NamedTuple):
    """Gradients of the loss by the domain statistics, each divided by the domain's mass W_d (D×C)."""

    mean: Array
    variance: Array


def domain_shares(w: Array) -> tuple[Array, Array]:
    """Eq. 3: the shares α (N×D) and the masses W (D). A domain without mass has shares of zero."""
    mass = np.ones(len(w)) @ w  # a product: NumPy is slow at sums over short axes
    return np.divide(w, mass, out=np.zeros_like(w), where=mass != 0), mass


def domain_moments(
    share: Array, row_mean: Array, row_variance: Array, mean: Array, variance: Array, scratch: Array
) -> None:
    """Eq. 2 from row moments, into ``mean`` and ``variance`` (D×C); ``scratch`` (N×C) is overwritten.

    σ²_dc = Σ_i α_id [v_ic + (m_ic - μ_dc)²] is the law of total variance: nothing large is ever subtracted.
    """
    np.matmul(share.T, row_mean, out=mean)
    for d in range(len(mean)):
        scratch[...] = formulas.spread(row_variance, row_mean, mean[d])
        np.matmul(share[:, d], scratch, out=variance[d])


def inverse_deviation(variance: Array, eps: float, mass: Array | None = None) -> Array:
    """r = (σ² + ε)^-½, D×C; with ``mass`` given, 0 for domains that have none, which silences their gradients."""
    inverse = formulas.inverse_deviation(variance, eps)
    if mass is not None:
        inverse[mass == 0] = 0
    return inverse


def row_centres(w: Array, mean: Array, out: Array, scratch: Array) -> None:
    """Each row's expected mean Σ_d w_id μ_dc, rounded into ``out`` (N×C); ``scratch`` (N×C) is overwritten.

    The affine maps are written around it, so that float32 rows with a large mean lose no digits.
    """
    np.matmul(w, mean, out=scratch)
    out[...] = scratch


def row_affine(
    w: Array, mean: Array, inverse: Array, centre: Array, scale: Array, offset: Array, scratch: Array
) -> None:
    """Eq. 4 as y_ics = scale_ic (x_ics - centre_ic) + offset_ic, into ``scale`` and ``offset`` (N×C).

    ``scratch`` (N×C) is overwritten.
    """
    np.matmul(w, inverse, out=scale)
    np.matmul(w, inverse * mean, out=scratch)
    offset[...] = formulas.affine_offset(scale, centre, scratch)


def statistics_gradient(grad_sum: Array, grad_dot: Array, inverse: Array) -> StatisticsGradient:
    """∂μ/W and ∂σ²/W from Σ_i α_id Σ_s g (D×C) and Σ_i α_id Σ_s g (x - μ_d) (D×C)."""
    return StatisticsGradient(formulas.mean_gradient(inverse, grad_sum), formulas.variance_gradient(inverse, grad_dot))


def domain_gradient_sums(share: Array, grad_sum: Array, grad_dot: Array, mean: Array) -> tuple[Array, Array]:
    """Σ_i α_id Σ_s g and Σ_i α_id Σ_s g (x - μ_d), each D×C.

    ``grad_sum`` is G_ic = Σ_s g and ``grad_dot`` is Σ_s g x (N×C), with x and ``mean`` from one origin per channel.
    """
    total = share.T @ grad_sum
    return total, formulas.about(share.T @ grad_dot, mean, total)


def row_gradient(
    w: Array,
    mean: Array,
    inverse: Array,
    gradient: StatisticsGradient,
    centre: Array,
    size: int,
    scale: Array,
    slope: Array,
    offset: Array,
    scratch: Array,
) -> None:
    """∂x_ics = scale_ic g_ics + slope_ic (x_ics - centre_ic) + offset_ic, into three N×C arrays.

    ``mean`` and ``centre`` count from one origin per channel; ``size`` is S; ``scratch`` (N×C) is overwritten.
    """
    np.matmul(w, inverse, out=scale)
    np.matmul(w, formulas.input_slope(gradient.variance, size), out=slope)
    np.matmul(w, formulas.linear(gradient.mean, gradient.variance, mean) / size, out=offset)
    np.multiply(slope, centre, out=scratch)
    np.add(offset, scratch, out=offset)


def weight_gradient_direct(grad_sum: Array, grad_dot: Array, mean: Array, inverse: Array) -> Array:
    """The part of ∂w (N×D) that does not pass through the statistics: Σ_c r_dc Σ_s g (x - μ_dc).

    Arguments as in ``domain_gradient_sums``, for single rows.
    """
    return grad_dot @ inverse.T - grad_sum @ (inverse * mean).T


def weight_gradient_statistics(
    row_mean: Array, row_square: Array, mean: Array, variance: Array, gradient: StatisticsGradient
) -> Array:
    """The part of ∂w (N×D) that passes through the statistics.

    (1/W_d) Σ_c [ ∂μ (m_ic - μ_dc) + ∂σ² (v_ic + (m_ic - μ_dc)² - σ²_dc) ], with the square expanded so that it is
    two matrix products: ``row_square`` is v_ic + m_ic². All means count from one origin per channel.
    """
    linear = formulas.linear(gradient.mean, gradient.variance, mean)
    constant = formulas.constant(gradient.mean, gradient.variance, mean, variance)
    return row_mean @ linear.T + row_square @ gradient.variance.T + constant.sum(axis=1)


def unbiased_factor(mass: Array, size: int) -> Array:
    """m / (m - 1) with m = W_d S, and 1 where m <= 1 (D): what makes a variance of m values unbiased.

    It never exceeds 2, the factor of two values: a soft domain whose mass is just above one value would otherwise
    put a single huge term into its running variance.
    """
    count = mass * size
    # Two values stand in for a count without a factor, which is not used.
    return np.where(count > 1, formulas.unbiased_factor(np.where(count > 1, count, 2)), 1)


def update_running(
    blobs: tuple[Array, Array, Array], mean: Array, variance: Array, mass: Array, size: int, fraction: float
) -> None:
    """Fold one batch into the running sums (Σ mean D×C, Σ variance D×C, divisor D), as Caffe's BatchNorm does.

    A domain without mass keeps its sums.
    """
    seen = mass != 0
    mean_sum, variance_sum, divisor = blobs
    decay = np.where(seen, fraction, 1.0)
    unbiased = variance * unbiased_factor(mass, size)[:, None]
    mean_sum[...] = formulas.folded(mean_sum, decay[:, None], np.where(seen[:, None], mean, 0))
    variance_sum[...] = formulas.folded(variance_sum, decay[:, None], np.where(seen[:, None], unbiased, 0))
    divisor[...] = formulas.folded(divisor, decay, seen)


def running_statistics(blobs: tuple[Array, Array, Array], mean: Array, variance: Array) -> None:
    """The running mean and variance (D×C): each sum over its divisor, and zero for a domain never seen."""
    mean_sum, variance_sum, divisor = blobs
    scale = np.divide(1, divisor, out=np.zeros_like(divisor), where=divisor != 0)[:, None]
    np.multiply(mean_sum, scale, out=mean)
    np.multiply(variance_sum, scale, out=variance)
