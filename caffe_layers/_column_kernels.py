"""CPU kernels for S = 1, where a row is one value and the channels are what is contiguous in memory.

Load this module through ``_kernel_cache``: its functions compile when it is imported. Arrays: x, g, y are N×C
float32; ``w`` and ``share`` N×D, and the domain statistics D×C, are float64. Threads share out tiles of channels;
within a tile the loops run over samples, then domains, then channels, and skip the zeros of one-hot rows.
The formulas are those of ``_mathematics`` with m = x and v = 0, so that nothing of x's size is kept in float64.
"""

import numpy as np
from numba import njit, prange

_FASTMATH = {"reassoc", "contract", "nsz"}
_DATA, _SMALL, _PARTS = "float32[:,::1]", "float64[:,::1]", "float64[:,:,::1]"
TILE = 64


def _kernel(signature: str):
    return njit(signature, parallel=True, fastmath=_FASTMATH, error_model="numpy", cache=True)


@_kernel(f"void({_DATA}, {_SMALL}, {_SMALL}, {_SMALL})")
def column_moments(x, share, mean, variance):
    """Eq. 2 into ``mean`` and ``variance``: the mean first, then the squared distances to it."""
    samples, channels = x.shape
    domains = share.shape[1]
    for tile in prange((channels + TILE - 1) // TILE):
        first = tile * TILE
        last = min(first + TILE, channels)
        for d in range(domains):
            for c in range(first, last):
                mean[d, c] = 0.0
                variance[d, c] = 0.0
        for i in range(samples):
            for d in range(domains):
                a = share[i, d]
                if a != 0.0:
                    for c in range(first, last):
                        mean[d, c] += a * x[i, c]
        for i in range(samples):
            for d in range(domains):
                a = share[i, d]
                if a != 0.0:
                    for c in range(first, last):
                        distance = x[i, c] - mean[d, c]
                        variance[d, c] += a * (distance * distance)


@_kernel(f"void({_DATA}, {_SMALL}, {_SMALL}, {_SMALL}, {_DATA})")
def column_normalise(x, w, mean, inverse, y):
    """Eq. 4: y = Σ_d w_id r_dc (x - μ_dc)."""
    samples, channels = x.shape
    domains = w.shape[1]
    for tile in prange((channels + TILE - 1) // TILE):
        first = tile * TILE
        last = min(first + TILE, channels)
        result = np.empty(TILE)
        for i in range(samples):
            for c in range(first, last):
                result[c - first] = 0.0
            for d in range(domains):
                a = w[i, d]
                if a != 0.0:
                    for c in range(first, last):
                        result[c - first] += a * (inverse[d, c] * (x[i, c] - mean[d, c]))
            for c in range(first, last):
                y[i, c] = result[c - first]


@_kernel(f"void({_DATA}, {_DATA}, {_SMALL}, {_SMALL}, {_SMALL}, {_SMALL})")
def column_gradient_sums(x, g, share, mean, grad_sum, grad_dot):
    """Σ_i α_id g and Σ_i α_id g (x - μ_d), each D×C."""
    samples, channels = x.shape
    domains = share.shape[1]
    for tile in prange((channels + TILE - 1) // TILE):
        first = tile * TILE
        last = min(first + TILE, channels)
        for d in range(domains):
            for c in range(first, last):
                grad_sum[d, c] = 0.0
                grad_dot[d, c] = 0.0
        for i in range(samples):
            for d in range(domains):
                a = share[i, d]
                if a != 0.0:
                    for c in range(first, last):
                        weighted = a * g[i, c]
                        grad_sum[d, c] += weighted
                        grad_dot[d, c] += weighted * (x[i, c] - mean[d, c])


@_kernel(f"void({_DATA}, {_DATA}, {_SMALL}, {_SMALL}, {_SMALL}, {_SMALL}, {_SMALL}, {_DATA})")
def column_input_gradient(x, g, w, mean, inverse, grad_mean, grad_variance, dx):
    """dx = Σ_d w_id [ r g + ∂μ/W + 2 (∂σ²/W) (x - μ) ]."""
    samples, channels = x.shape
    domains = w.shape[1]
    for tile in prange((channels + TILE - 1) // TILE):
        first = tile * TILE
        last = min(first + TILE, channels)
        result = np.empty(TILE)
        for i in range(samples):
            for c in range(first, last):
                result[c - first] = 0.0
            for d in range(domains):
                a = w[i, d]
                if a != 0.0:
                    for c in range(first, last):
                        result[c - first] += a * (
                            inverse[d, c] * g[i, c]
                            + grad_mean[d, c]
                            + 2.0 * (grad_variance[d, c] * (x[i, c] - mean[d, c]))
                        )
            for c in range(first, last):
                dx[i, c] = result[c - first]


@_kernel(f"void({_DATA}, {_DATA}, {_SMALL}, {_SMALL}, {_SMALL}, {_SMALL}, {_SMALL}, {_PARTS})")
def column_weight_gradient(x, g, mean, variance, inverse, grad_mean, grad_variance, parts):
    """∂w_id = Σ_c (r g + ∂μ/W) (x - μ) + (∂σ²/W) ((x - μ)² - σ²), one part per tile (tiles×N×D)."""
    samples, channels = x.shape
    domains = mean.shape[0]
    for tile in prange((channels + TILE - 1) // TILE):
        first = tile * TILE
        last = min(first + TILE, channels)
        for i in range(samples):
            for d in range(domains):
                total = 0.0
                for c in range(first, last):
                    distance = x[i, c] - mean[d, c]
                    total += (inverse[d, c] * g[i, c] + grad_mean[d, c]) * distance + grad_variance[d, c] * (
                        distance * distance - variance[d, c]
                    )
                parts[tile, i, d] = total
