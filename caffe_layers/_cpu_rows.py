"""mDA on the CPU for S >= 2: kernels over rows, and the small matrices of ``_mathematics`` between them.

Forward reads x twice and writes y; backward reads x and g twice and writes ∂x.
"""

import numpy as np

from caffe_layers import _kernel_cache
from caffe_layers import _mathematics as mathematics
from caffe_layers._mathematics import Array
from caffe_layers._scratch import scratch


class RowBackend:
    """The four steps of the layer on N×C×S blobs.

    Every x, y, g and dx is N×C×S contiguous float32; w and share are N×D, domain statistics D×C, float64.
    """

    def __init__(self, samples: int, channels: int, size: int) -> None:
        self._kernels = _kernel_cache.load("_row_kernels")
        self._rows = samples * channels, size
        self._matrix = samples, channels
        self._size = size
        for name in ("a", "b", "c", "d"):
            self._numbers(name)
        self._centre()

    def moments(self, x: Array, share: Array, mean: Array, variance: Array) -> None:
        """Eq. 2: the batch's domain statistics, into ``mean`` and ``variance``."""
        row_mean, row_variance = self._numbers("a"), self._numbers("b")
        self._kernels.row_moments(x.reshape(self._rows), row_mean.ravel(), row_variance.ravel())
        mathematics.domain_moments(share, row_mean, row_variance, mean, variance, self._numbers("c"))

    def normalise(self, x: Array, w: Array, mean: Array, inverse: Array, y: Array) -> None:
        """Eq. 4, into ``y``."""
        scale, offset, centre = self._numbers("a"), self._numbers("b"), self._centre()
        mathematics.row_centres(w, mean, centre, self._numbers("c"))
        mathematics.row_affine(w, mean, inverse, centre, scale, offset, self._numbers("c"))
        self._kernels.row_affine(
            x.reshape(self._rows), centre.ravel(), scale.ravel(), offset.ravel(), y.reshape(self._rows)
        )

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
        row_mean, row_variance = self._numbers("a"), self._numbers("b")
        grad_sum, grad_dot = self._numbers("c"), self._numbers("d")
        self._reduce(x, g, row_mean, row_variance, grad_sum, grad_dot)

        # From here on means count from one origin per channel, which keeps their squares small.
        origin = row_mean.mean(axis=0)
        np.subtract(row_mean, origin, out=row_mean)
        local_mean = mean - origin
        _add_product(grad_dot, grad_sum, row_mean)

        totals = mathematics.domain_gradient_sums(share, grad_sum, grad_dot, local_mean)
        gradient = mathematics.statistics_gradient(*totals, inverse)
        if dw is not None:
            dw[...] = mathematics.weight_gradient_direct(grad_sum, grad_dot, local_mean, inverse)
            _add_product(row_variance, row_mean, row_mean)
            dw += mathematics.weight_gradient_statistics(row_mean, row_variance, local_mean, variance, gradient)
        if dx is not None:
            # The row sums are spent: their arrays hold the coefficients.
            scale, slope, offset, local_centre = row_variance, grad_sum, grad_dot, row_mean
            centre = self._centre()
            mathematics.row_centres(w, mean, centre, scale)
            np.subtract(centre, origin, out=local_centre)
            mathematics.row_gradient(
                w, local_mean, inverse, gradient, local_centre, self._size, scale, slope, offset, local_centre
            )
            self._kernels.row_input_gradient(
                x.reshape(self._rows),
                g.reshape(self._rows),
                centre.ravel(),
                scale.ravel(),
                slope.ravel(),
                offset.ravel(),
                dx.reshape(self._rows),
            )

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
        if dw is not None:
            row_mean, row_variance = self._numbers("a"), self._numbers("b")
            grad_sum, grad_dot = self._numbers("c"), self._numbers("d")
            self._reduce(x, g, row_mean, row_variance, grad_sum, grad_dot)
            origin = row_mean.mean(axis=0)
            np.subtract(row_mean, origin, out=row_mean)
            _add_product(grad_dot, grad_sum, row_mean)
            dw[...] = mathematics.weight_gradient_direct(grad_sum, grad_dot, mean - origin, inverse)
        if dx is not None:
            scale, zero, centre = self._numbers("a"), self._numbers("b"), self._centre()
            np.matmul(w, inverse, out=scale)
            zero.fill(0)
            centre.fill(0)
            self._kernels.row_affine(
                g.reshape(self._rows), centre.ravel(), scale.ravel(), zero.ravel(), dx.reshape(self._rows)
            )

    def _reduce(
        self, x: Array, g: Array, row_mean: Array, row_variance: Array, grad_sum: Array, grad_dot: Array
    ) -> None:
        self._kernels.row_gradients(
            x.reshape(self._rows),
            g.reshape(self._rows),
            row_mean.ravel(),
            row_variance.ravel(),
            grad_sum.ravel(),
            grad_dot.ravel(),
        )

    def _numbers(self, name: str) -> Array:
        return scratch(f"rows {name}", self._matrix)

    def _centre(self) -> Array:
        return scratch("rows centre", self._matrix, np.float32)


def _add_product(total: Array, first: Array, second: Array) -> None:
    """total += first · second, a few rows at a time: no array of their size is made."""
    step = max(1, 4096 // total.shape[1])
    for start in range(0, len(total), step):
        part = slice(start, start + step)
        total[part] += first[part] * second[part]
