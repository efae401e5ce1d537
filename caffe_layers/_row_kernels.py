"""CPU kernels over rows: the S positions of one sample and channel, contiguous in memory.

Load this module through ``_kernel_cache``: its functions compile when it is imported. Arrays are x, g, y of R×S
float32 with R = N·C, and one number per row (R): ``centre`` float32, the rest float64. Sums run over slices of a row:
indexed by row and position they vectorise as gathers, six to nine times as slow.
"""

import numpy as np
from numba import prange

from caffe_layers._kernel_cache import kernel

_ROWS, _CENTRE, _NUMBERS = "float32[:,::1]", "float32[::1]", "float64[::1]"
# float32 sums run over at most this many values (in 32 vector lanes) before they join a float64 sum.
_BLOCK = 1024


@kernel(f"void({_ROWS}, {_NUMBERS}, {_NUMBERS})", sums=True)
def row_moments(x, mean, variance):
    """Mean and biased variance of every row.

    One pass over the row, shifted by the mean m' of its first eighth: (m - m')² <= 7 σ² whatever the row, so
    Σ(x - m')² loses at most three bits when it is moved to m.
    """
    rows, size = x.shape
    head = (size + 7) // 8
    for r in prange(rows):
        shift = np.float32(0)
        values = x[r, :head]
        for s in range(values.size):
            shift += values[s]
        shift /= np.float32(head)
        total = 0.0
        square = 0.0
        for start in range(0, size, _BLOCK):
            block_total = np.float32(0)
            block_square = np.float32(0)
            values = x[r, start : start + _BLOCK]
            for s in range(values.size):
                d = values[s] - shift
                block_total += d
                block_square += d * d
            total += block_total
            square += block_square
        step = total / size
        mean[r] = shift + step
        variance[r] = max(square / size - step * step, 0.0)


@kernel(f"void({_ROWS}, {_ROWS}, {_NUMBERS}, {_NUMBERS}, {_NUMBERS}, {_NUMBERS})", sums=True)
def row_gradients(x, g, mean, variance, grad_sum, grad_dot):
    """Mean and biased variance of every row of x, Σ g and Σ g (x - mean): one read of x and g."""
    rows, size = x.shape
    head = (size + 7) // 8
    for r in prange(rows):
        shift = np.float32(0)
        values = x[r, :head]
        for s in range(values.size):
            shift += values[s]
        shift /= np.float32(head)
        total = 0.0
        square = 0.0
        grad = 0.0
        dot = 0.0
        for start in range(0, size, _BLOCK):
            block_total = np.float32(0)
            block_square = np.float32(0)
            block_grad = np.float32(0)
            block_dot = np.float32(0)
            values = x[r, start : start + _BLOCK]
            gradients = g[r, start : start + _BLOCK]
            for s in range(values.size):
                d = values[s] - shift
                block_total += d
                block_square += d * d
                block_grad += gradients[s]
                block_dot += gradients[s] * d
            total += block_total
            square += block_square
            grad += block_grad
            dot += block_dot
        step = total / size
        mean[r] = shift + step
        variance[r] = max(square / size - step * step, 0.0)
        grad_sum[r] = grad
        grad_dot[r] = dot - grad * step


@kernel(f"void({_ROWS}, {_CENTRE}, {_NUMBERS}, {_NUMBERS}, {_ROWS})")
def row_affine(x, centre, scale, offset, y):
    """y = scale (x - centre) + offset."""
    rows, size = x.shape
    for r in prange(rows):
        c = centre[r]
        a = np.float32(scale[r])
        b = np.float32(offset[r])
        for s in range(size):
            y[r, s] = a * (x[r, s] - c) + b


@kernel(f"void({_ROWS}, {_ROWS}, {_CENTRE}, {_NUMBERS}, {_NUMBERS}, {_NUMBERS}, {_ROWS})")
def row_input_gradient(x, g, centre, scale, slope, offset, dx):
    """dx = scale g + slope (x - centre) + offset."""
    rows, size = x.shape
    for r in prange(rows):
        c = centre[r]
        a = np.float32(scale[r])
        k = np.float32(slope[r])
        b = np.float32(offset[r])
        for s in range(size):
            dx[r, s] = a * g[r, s] + (k * (x[r, s] - c) + b)
