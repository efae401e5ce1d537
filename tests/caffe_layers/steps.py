"""One forward and backward on the CPU outside Caffe, and random problems for it."""

from types import SimpleNamespace

import numpy as np

from caffe_layers import _cpu_mda, _kernel_cache
from caffe_layers._backend import Geometry
from tests.caffe_layers import numpy_kernels


def cpu_steps(x, w):
    """The steps that the layer would choose."""
    steps = _cpu_mda.Columns if x.shape[2] == 1 else _cpu_mda.Rows
    return steps(Geometry(*x.shape, w.shape[1]))


def float64_steps(x):
    """The steps over rows with NumPy's float64 in place of the kernels, for any S."""
    steps = _cpu_mda.Rows(Geometry(*x.shape, 1))
    steps._kernels = numpy_kernels
    return steps


def run(steps, x, w, g, eps=1e-5, fixed=None, wants=("x", "w")):
    """All results for x (N×C×S), w and g = ∂L/∂y, in x's precision; ``fixed`` is a (mean, variance) to use instead."""
    kernels = _kernel_cache.load("_domain_kernels")
    share, mass = kernels.domain_shares(w)
    mean, variance = np.zeros((2, w.shape[1], x.shape[1]))
    if fixed is None:
        steps.moments(x, share, mean, variance)
        inverse = kernels.inverse_deviation(variance, eps, mass)
    else:
        mean[...], variance[...] = fixed
        inverse = kernels.inverse_deviation(variance, eps, np.ones(len(mass)))
    y = np.full_like(x, np.nan)
    steps.normalise(x, w, mean, inverse, y)
    dx = np.full_like(x, np.nan) if "x" in wants else None
    dw = np.full_like(w, np.nan) if "w" in wants else None
    steps.gradients(x, g, w, share if fixed is None else None, mean, variance, inverse, dx, dw)
    return SimpleNamespace(mean=mean, variance=variance, mass=mass, inverse=inverse, y=y, dx=dx, dw=dw)


def random_rows(rng, samples, domains, *, empty=0, hard=0.0):
    """Rows of w (N×D): random, the first ``empty`` domains without mass, a share ``hard`` of them one-hot."""
    w = np.zeros((samples, domains))
    w[:, empty:] = rng.dirichlet(np.ones(domains - empty), samples)
    for i in np.flatnonzero(rng.random(samples) < hard):
        w[i] = 0
        w[i, rng.integers(empty, domains)] = 1
    return w
