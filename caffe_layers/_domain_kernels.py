"""CPU kernels over w (N×D) and the domain statistics (D×C), in float64.

These arrays are so small that waking threads, or calling NumPy, would take longer than the work itself. Load this
module through ``_kernel_cache``: its functions compile when it is imported.
"""

import numpy as np
from numba import njit

from caffe_layers import _formulas as formulas
from caffe_layers._kernel_cache import kernel

_STATISTICS, _DOMAINS, _RUNNING = "float64[:,::1]", "float64[::1]", "float32[:,::1], float32[:,::1], float32[::1]"
_inner = njit(error_model="numpy")
_factor, _folded = _inner(formulas.unbiased_factor), _inner(formulas.folded)
_inverse_deviation = _inner(formulas.inverse_deviation)


@kernel("int64(float32[:,::1], float64, float64[:,::1])", threads=False)
def probabilities(rows, slack, w):
    """Copy ``rows`` into ``w`` and return the number of the first bad row, or -1.

    A row is good if its values are finite, at least 0, and sum to 1 ± ``slack``.
    """
    wrong = -1
    for i in range(rows.shape[0]):
        total = 0.0
        negative = False
        for d in range(rows.shape[1]):
            w[i, d] = rows[i, d]
            total += rows[i, d]
            negative |= rows[i, d] < -slack
        # Written so that NaN fails.
        if wrong < 0 and (negative or not abs(total - 1) <= slack):
            wrong = i
    return wrong


@kernel(f"Tuple((float64[:,::1], {_DOMAINS}))(float64[:,::1])", threads=False)
def domain_shares(w):
    """Eq. 2: the shares α (N×D) and the masses W (D). A domain without mass has shares of zero."""
    samples, domains = w.shape
    share, mass = np.zeros((samples, domains)), np.zeros(domains)
    for i in range(samples):
        for d in range(domains):
            mass[d] += w[i, d]
    for i in range(samples):
        for d in range(domains):
            if mass[d] != 0:
                share[i, d] = w[i, d] / mass[d]
    return share, mass


@kernel(f"{_STATISTICS}({_STATISTICS}, float64, {_DOMAINS})", threads=False)
def inverse_deviation(variance, eps, mass):
    """r = (σ² + ε)^-½, D×C; 0 for domains without mass, which makes their gradients 0."""
    inverse = np.zeros(variance.shape)
    for d in range(variance.shape[0]):
        if mass[d] != 0:
            for c in range(variance.shape[1]):
                inverse[d, c] = _inverse_deviation(variance[d, c], eps)
    return inverse


@_inner
def unbiased_factor(mass, size):
    """Return the factor m / (m - 1), m = W_d S, that makes a variance of m values unbiased; 1 where m <= 1.

    It is at most 2, its value for m = 2. Else a domain whose mass is just above one value would add one huge term to
    its running variance.
    """
    count = mass * size
    return _factor(count) if count > 1 else 1.0


@kernel(f"void({_RUNNING}, {_STATISTICS}, {_STATISTICS}, {_DOMAINS}, int64, float64)", threads=False)
def update_running(mean_sum, variance_sum, divisor, mean, variance, mass, size, fraction):
    """Fold one batch into the running sums (Σ mean D×C, Σ variance D×C, divisor D), as Caffe's BatchNorm does.

    A domain without mass keeps its sums.
    """
    for d in range(mean.shape[0]):
        if mass[d] != 0:
            factor = unbiased_factor(mass[d], size)
            for c in range(mean.shape[1]):
                mean_sum[d, c] = _folded(mean_sum[d, c], fraction, mean[d, c])
                variance_sum[d, c] = _folded(variance_sum[d, c], fraction, factor * variance[d, c])
            divisor[d] = _folded(divisor[d], fraction, 1)
