"""One forward and backward of a backend outside Caffe, and random problems for it."""

from types import SimpleNamespace

import numpy as np

from caffe_layers import _mathematics as mathematics
from caffe_layers._cpu_columns import ColumnBackend
from caffe_layers._cpu_rows import RowBackend
from tests.caffe_layers import numpy_kernels


def cpu_backend(x, w):
    """The backend that the layer would choose."""
    samples, channels, size = x.shape
    if size == 1:
        return ColumnBackend(samples, channels, w.shape[1])
    return RowBackend(samples, channels, size)


def float64_backend(x):
    """RowBackend with NumPy's float64 in place of the kernels, for any S."""
    backend = RowBackend(*x.shape)
    backend._kernels = numpy_kernels
    return backend


def run(backend, x, w, g, eps=1e-5, fixed=None, wants=("x", "w")):
    """All results for x (N×C×S), w and g = ∂L/∂y, in x's precision; ``fixed`` is a (mean, variance) to use instead."""
    share, mass = mathematics.domain_shares(w)
    mean, variance = np.zeros((2, w.shape[1], x.shape[1]))
    if fixed is None:
        backend.moments(x, share, mean, variance)
        inverse = mathematics.inverse_deviation(variance, eps, mass)
    else:
        mean[...], variance[...] = fixed
        inverse = mathematics.inverse_deviation(variance, eps)
    y = np.full_like(x, np.nan)
    backend.normalise(x, w, mean, inverse, y)
    dx = np.full_like(x, np.nan) if "x" in wants else None
    dw = np.full_like(w, np.nan) if "w" in wants else None
    if fixed is None:
        backend.batch_gradients(x, g, w, share, mean, variance, inverse, dx, dw)
    else:
        backend.fixed_gradients(x, g, w, mean, inverse, dx, dw)
    return SimpleNamespace(mean=mean, variance=variance, mass=mass, inverse=inverse, y=y, dx=dx, dw=dw)


def random_rows(rng, samples, domains, *, empty=0, hard=0.0):
    """Rows of w (N×D): random, the first ``empty`` domains without mass, a share ``hard`` of them one-hot."""
    w = np.zeros((samples, domains))
    w[:, empty:] = rng.dirichlet(np.ones(domains - empty), samples)
    for i in np.flatnonzero(rng.random(samples) < hard):
        w[i] = 0
        w[i, rng.integers(empty, domains)] = 1
    return w
