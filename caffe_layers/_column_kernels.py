"""CPU kernels for S = 1, where a row is one value and the channels are what is contiguous in memory.

Load this module through ``_kernel_cache``: its functions compile when it is imported. Arrays: x, g, y are N×C
float32; ``w`` and ``share`` N×D, and the domain statistics D×C, are float64. Threads share out tiles of channels. The
calling thread does a single tile itself, since waking another takes longer. Within a tile, each block of channels is
copied so that its samples lie side by side: then loops over samples vectorise, however few channels there are.
A row's mean m is x itself and its variance v is 0, so nothing of x's size is kept in float64.
"""

import numpy as np
from numba import njit, prange

from caffe_layers import _formulas as formulas
from caffe_layers._kernel_cache import SUMS, kernel

_DATA, _SMALL, _PARTS = "float32[:,::1]", "float64[:,::1]", "float64[:,:,::1]"
TILE = 128
_BLOCK = 4  # channels at once; with more, the buffers would not be small beside x
_inner = njit(fastmath=SUMS, error_model="numpy")
_linear, _input_slope, _term = njit(formulas.linear), njit(formulas.input_slope), _inner(formulas.weight_gradient_term)
_mean_gradient, _variance_gradient = njit(formulas.mean_gradient), njit(formulas.variance_gradient)


@_inner
def _turn(rows, first, columns):
    """Copy the columns of ``rows`` from ``first`` on into the rows of ``columns``; return how many there were."""
    last = min(first + columns.shape[0], rows.shape[1])
    for i in range(rows.shape[0]):
        row = rows[i, first:last]
        for c in range(row.size):
            columns[c, i] = row[c]
    return last - first


@_inner
def _turn_back(columns, rows, first):
    last = min(first + columns.shape[0], rows.shape[1])
    for i in range(rows.shape[0]):
        row = rows[i, first:last]
        for c in range(row.size):
            row[c] = columns[c, i]


@_inner
def _turned(w):
    """w as D×N, and each domain's span of samples (D×2: first, last + 1), outside of which w is zero."""
    samples, domains = w.shape
    result = np.empty((domains, samples))
    _turn(w, 0, result)
    spans = np.zeros((domains, 2), np.int64)
    for d in range(domains):
        for i in range(samples):
            if result[d, i] != 0:
                if spans[d, 1] == 0:
                    spans[d, 0] = i
                spans[d, 1] = i + 1
    return result, spans


@_inner
def _moments(x, share, spans, mean, variance, tile):
    block = np.empty((_BLOCK, x.shape[0]))
    for first in range(tile * TILE, min((tile + 1) * TILE, x.shape[1]), _BLOCK):
        for c in range(_turn(x, first, block)):
            for d in range(share.shape[0]):
                start, stop = spans[d]
                a, values = share[d, start:stop], block[c, start:stop]
                m = 0.0
                for i in range(a.size):
                    m += a[i] * values[i]
                v = 0.0
                for i in range(a.size):
                    distance = values[i] - m
                    v += a[i] * (distance * distance)
                mean[d, first + c] = m
                variance[d, first + c] = v


@kernel(f"void({_DATA}, {_SMALL}, {_SMALL}, {_SMALL})", sums=True)
def column_moments(x, share, mean, variance):
    """Eq. 1 into ``mean`` and ``variance``: the mean first, then the squared distances to it."""
    share, spans = _turned(share)
    if x.shape[1] <= TILE:
        _moments(x, share, spans, mean, variance, 0)
    else:
        for tile in prange((x.shape[1] + TILE - 1) // TILE):
            _moments(x, share, spans, mean, variance, tile)


@_inner
def _normalise(x, w, spans, mean, inverse, y, tile):
    block, result = np.empty((2, _BLOCK, x.shape[0]))
    for first in range(tile * TILE, min((tile + 1) * TILE, x.shape[1]), _BLOCK):
        for c in range(_turn(x, first, block)):
            result[c] = 0.0
            for d in range(w.shape[0]):
                start, stop = spans[d]
                a, values, out = w[d, start:stop], block[c, start:stop], result[c, start:stop]
                m, r = mean[d, first + c], inverse[d, first + c]
                for i in range(a.size):
                    out[i] += a[i] * (r * (values[i] - m))
        _turn_back(result, y, first)


@kernel(f"void({_DATA}, {_SMALL}, {_SMALL}, {_SMALL}, {_DATA})")
def column_normalise(x, w, mean, inverse, y):
    """Eq. 3: y = Σ_d w_id r_dc (x - μ_dc)."""
    w, spans = _turned(w)
    if x.shape[1] <= TILE:
        _normalise(x, w, spans, mean, inverse, y, 0)
    else:
        for tile in prange((x.shape[1] + TILE - 1) // TILE):
            _normalise(x, w, spans, mean, inverse, y, tile)


@_inner
def _gradients(x, g, w, spans, share, mean, variance, inverse, dx, part, tile):
    block, grads, result = np.empty((3, _BLOCK, x.shape[0]))
    part[:] = 0.0
    for first in range(tile * TILE, min((tile + 1) * TILE, x.shape[1]), _BLOCK):
        _turn(g, first, grads)
        for c in range(_turn(x, first, block)):
            result[c] = 0.0
            for d in range(w.shape[0]):
                start, stop = spans[d]
                values, grad, out = block[c, start:stop], grads[c, start:stop], result[c, start:stop]
                m, v, r = mean[d, first + c], variance[d, first + c], inverse[d, first + c]
                p = q = 0.0
                if share.size > 0:
                    a = share[d, start:stop]
                    total = dot = 0.0
                    for i in range(a.size):
                        weighted = a[i] * grad[i]
                        total += weighted
                        dot += weighted * (values[i] - m)
                    p, q = _mean_gradient(r, total), _variance_gradient(r, dot)
                if dx.size > 0:
                    a, k, b = w[d, start:stop], _input_slope(q, 1), _linear(p, q, m)
                    for i in range(a.size):
                        out[i] += a[i] * (r * grad[i] + (k * values[i] + b))
                if part.size > 0:
                    terms, values, grad = part[d], block[c], grads[c]
                    for i in range(terms.size):
                        terms[i] += _term(values[i], grad[i], m, v, r, p, q)
        if dx.size > 0:
            _turn_back(result, dx, first)


@kernel(f"void({', '.join([_DATA] * 2 + [_SMALL] * 5 + [_DATA, _PARTS])})", sums=True)
def column_gradients(x, g, w, share, mean, variance, inverse, dx, parts):
    """∂x = Σ_d w_id (r_dc g + 2 ∂σ²/W x + …) and the terms of ∂w, summed over each tile's channels (tiles×D×N).

    An empty ``share`` says that the statistics are constants, an empty ``dx`` or ``parts`` that it is not wanted.
    """
    w, spans = _turned(w)
    share, _ = _turned(share)
    if x.shape[1] <= TILE:
        _gradients(x, g, w, spans, share, mean, variance, inverse, dx, parts[0], 0)
    else:
        for tile in prange((x.shape[1] + TILE - 1) // TILE):
            _gradients(x, g, w, spans, share, mean, variance, inverse, dx, parts[tile], tile)
