"""CPU kernels for S = 1, where a row is one value and the channels are what is contiguous in memory.

Load this module through ``_kernel_cache``: its functions compile when it is imported. Arrays: x, g, y are N×C
float32; ``w`` and ``share`` N×D, and the domain statistics D×C, are float64. Threads share out tiles of channels;
within a tile the innermost loops run over channels, and the zeros of one-hot rows are skipped. Loops over slices
vectorise here, loops over two indices do not.
Here m = x and v = 0, so that nothing of x's size is kept in float64.
"""

import numpy as np
from numba import njit, prange

from caffe_layers import _formulas as formulas
from caffe_layers._kernel_cache import kernel

_DATA, _SMALL, _PARTS = "float32[:,::1]", "float64[:,::1]", "float64[:,:,::1]"
TILE = 128
_term = njit(formulas.weight_gradient_term, inline="always")


@kernel(f"void({_DATA}, {_SMALL}, {_SMALL}, {_SMALL})")
def column_moments(x, share, mean, variance):
    """Eq. 1 into ``mean`` and ``variance``: the mean first, then the squared distances to it."""
    samples, channels = x.shape
    domains = share.shape[1]
    for tile in prange((channels + TILE - 1) // TILE):
        first = tile * TILE
        last = min(first + TILE, channels)
        for d in range(domains):
            m = mean[d, first:last]
            v = variance[d, first:last]
            m[:] = 0.0
            v[:] = 0.0
            for i in range(samples):
                a = share[i, d]
                if a != 0.0:
                    row = x[i, first:last]
                    for c in range(row.size):
                        m[c] += a * row[c]
            for i in range(samples):
                a = share[i, d]
                if a != 0.0:
                    row = x[i, first:last]
                    for c in range(row.size):
                        distance = row[c] - m[c]
                        v[c] += a * (distance * distance)


@kernel(f"void({_DATA}, {_SMALL}, {_SMALL}, {_SMALL}, {_DATA})")
def column_normalise(x, w, mean, inverse, y):
    """Eq. 3: y = Σ_d w_id r_dc (x - μ_dc)."""
    samples, channels = x.shape
    domains = w.shape[1]
    for tile in prange((channels + TILE - 1) // TILE):
        first = tile * TILE
        last = min(first + TILE, channels)
        result = np.empty(last - first)
        for i in range(samples):
            row = x[i, first:last]
            result[:] = 0.0
            for d in range(domains):
                a = w[i, d]
                if a != 0.0:
                    m = mean[d, first:last]
                    r = inverse[d, first:last]
                    for c in range(row.size):
                        result[c] += a * (r[c] * (row[c] - m[c]))
            out = y[i, first:last]
            for c in range(row.size):
                out[c] = result[c]


@kernel(f"void({_DATA}, {_DATA}, {_SMALL}, {_SMALL}, {_SMALL}, {_SMALL})")
def column_gradient_sums(x, g, share, mean, grad_sum, grad_dot):
    """Σ_i α_id g and Σ_i α_id g (x - μ_d), each D×C."""
    samples, channels = x.shape
    domains = share.shape[1]
    for tile in prange((channels + TILE - 1) // TILE):
        first = tile * TILE
        last = min(first + TILE, channels)
        for d in range(domains):
            m = mean[d, first:last]
            total = grad_sum[d, first:last]
            dot = grad_dot[d, first:last]
            total[:] = 0.0
            dot[:] = 0.0
            for i in range(samples):
                a = share[i, d]
                if a != 0.0:
                    row = x[i, first:last]
                    grad = g[i, first:last]
                    for c in range(row.size):
                        weighted = a * grad[c]
                        total[c] += weighted
                        dot[c] += weighted * (row[c] - m[c])


@kernel(f"void({_DATA}, {_DATA}, {_SMALL}, {_SMALL}, {_SMALL}, {_SMALL}, {_DATA})")
def column_input_gradient(x, g, w, scale, slope, offset, dx):
    """dx = Σ_d w_id (scale_dc g + slope_dc x + offset_dc)."""
    samples, channels = x.shape
    domains = w.shape[1]
    for tile in prange((channels + TILE - 1) // TILE):
        first = tile * TILE
        last = min(first + TILE, channels)
        result = np.empty(last - first)
        for i in range(samples):
            row = x[i, first:last]
            grad = g[i, first:last]
            result[:] = 0.0
            for d in range(domains):
                weight = w[i, d]
                if weight != 0.0:
                    a = scale[d, first:last]
                    k = slope[d, first:last]
                    b = offset[d, first:last]
                    for c in range(row.size):
                        result[c] += weight * (a[c] * grad[c] + (k[c] * row[c] + b[c]))
            out = dx[i, first:last]
            for c in range(row.size):
                out[c] = result[c]


@kernel(f"void({_DATA}, {_DATA}, {_SMALL}, {_SMALL}, {_SMALL}, {_SMALL}, {_SMALL}, {_PARTS})", sums=True)
def column_weight_gradient(x, g, mean, variance, inverse, grad_mean, grad_variance, parts):
    """∂w_id = Σ_c of ``_formulas.weight_gradient_term``, one part per tile (tiles×N×D)."""
    samples, channels = x.shape
    domains = mean.shape[0]
    for tile in prange((channels + TILE - 1) // TILE):
        first = tile * TILE
        last = min(first + TILE, channels)
        for d in range(domains):
            m = mean[d, first:last]
            v = variance[d, first:last]
            r = inverse[d, first:last]
            p = grad_mean[d, first:last]
            q = grad_variance[d, first:last]
            for i in range(samples):
                row = x[i, first:last]
                grad = g[i, first:last]
                total = 0.0
                for c in range(row.size):
                    total += _term(row[c], grad[c], m[c], v[c], r[c], p[c], q[c])
                parts[tile, i, d] = total
