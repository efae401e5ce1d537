"""mDA on the CPU for S = 1, where rows are single values: kernels over tiles of channels."""

import numpy as np

from caffe_layers import _formulas as formulas
from caffe_layers import _kernel_cache
from caffe_layers import _mathematics as mathematics
from caffe_layers._mathematics import Array
from caffe_layers._scratch import scratch


class ColumnBackend:
    """The four steps of the layer on N×C×1 blobs; methods and arguments are those of ``RowBackend``."""

    def __init__(self, samples: int, channels: int, domains: int) -> None:
        self._kernels = _kernel_cache.load("_column_kernels")
        self._matrix = samples, channels
        self._statistics = domains, channels
        self._tiles = -(-channels // self._kernels.TILE), samples, domains
        for name in ("a", "b"):
            self._numbers(name)
        self._parts()

    def moments(self, x: Array, share: Array, mean: Array, variance: Array) -> None:
        """Eq. 2: the batch's domain statistics, into ``mean`` and ``variance``."""
        self._kernels.column_moments(x.reshape(self._matrix), share, mean, variance)

    def normalise(self, x: Array, w: Array, mean: Array, inverse: Array, y: Array) -> None:
        """Eq. 4, into ``y``."""
        self._kernels.column_normalise(x.reshape(self._matrix), w, mean, inverse, y.reshape(self._matrix))

    def batch_gradients(
        self,
        x: Array,
        g: Array,
        w: Array,
        share: Array,
        mean: Array,
        variance: Array,
        inverse: Array,
        dx: Array | None,
        dw: Array | None,
    ) -> None:
        """Gradients through the map and through the batch's own statistics, into ``dx`` and ``dw`` unless None."""
        totals = self._numbers("a"), self._numbers("b")
        self._kernels.column_gradient_sums(x.reshape(self._matrix), g.reshape(self._matrix), share, mean, *totals)
        gradient = mathematics.statistics_gradient(*totals, inverse)
        self._write(x, g, w, mean, variance, inverse, gradient, dx, dw)

    def fixed_gradients(
        self,
        x: Array,
        g: Array,
        w: Array,
        mean: Array,
        inverse: Array,
        dx: Array | None,
        dw: Array | None,
    ) -> None:
        """Gradients through the map alone, its statistics being constants, into ``dx`` and ``dw`` unless None."""
        zero = self._numbers("a")
        zero.fill(0)
        self._write(x, g, w, mean, zero, inverse, mathematics.StatisticsGradient(zero, zero), dx, dw)

    def _write(
        self,
        x: Array,
        g: Array,
        w: Array,
        mean: Array,
        variance: Array,
        inverse: Array,
        gradient: mathematics.StatisticsGradient,
        dx: Array | None,
        dw: Array | None,
    ) -> None:
        data = x.reshape(self._matrix), g.reshape(self._matrix)
        if dw is not None:
            parts = self._parts()
            self._kernels.column_weight_gradient(*data, mean, variance, inverse, *gradient, parts)
            np.sum(parts, axis=0, out=dw)
        if dx is not None:
            # A column's coefficients are sums of its domains': x needs no centre in float64.
            slope = formulas.input_slope(gradient.variance, 1)
            offset = formulas.linear(gradient.mean, gradient.variance, mean)
            self._kernels.column_input_gradient(*data, w, inverse, slope, offset, dx.reshape(self._matrix))

    def _numbers(self, name: str) -> Array:
        return scratch(f"columns {name}", self._statistics)

    def _parts(self) -> Array:
        return scratch("columns parts", self._tiles)
