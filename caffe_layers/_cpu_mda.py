"""mDA on the CPU (paper section 3.2, Eq. 1-3, and their gradients).

Kernels read and write the arrays of x's size (N×C×S, float32): those of ``_row_kernels``, or of ``_column_kernels``
where S is 1. Smaller arrays are float64. The kernels of ``_domain_kernels`` compute them, or NumPy here, with the
formulas of ``_formulas``.
Where S > 1, forward reads x twice and writes y; backward reads x and g = ∂L/∂y twice and writes ∂x.

    w                        N×D  assignment, rows sum to 1
    share                    N×D  α_id = w_id / W_d, with the mass W_d = Σ_i w_id (Eq. 2)
    mean, variance, inverse  D×C  μ_dc, σ²_dc and r_dc = (σ²_dc + ε)^-½
    row_mean, row_variance   N×C  m_ic and v_ic, of the S values of one sample and channel
    grad_sum, grad_dot       N×C  G_ic = Σ_s g and Σ_s g (x - m)
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from caffe_layers import _bottoms, _kernel_cache
from caffe_layers import _formulas as formulas
from caffe_layers._backend import Geometry
from caffe_layers._scratch import scratch

Array = NDArray[np.floating]

_LARGEST = float(np.finfo(np.float32).max)


class CpuMda:
    """MDALayer on the CPU, on pycaffe's blobs. ``fixed``: with the running statistics, not the batch's."""

    def __init__(self, geometry: Geometry, eps: float, fraction: float, fixed: bool) -> None:
        self._geometry = geometry
        self._eps, self._fraction, self._fixed = eps, fraction, fixed
        samples, channels, size, domains = geometry
        self._w = np.ones((samples, domains))
        self._dw = np.zeros((samples, domains))
        self._mean = np.zeros((domains, channels))
        self._variance = np.zeros((domains, channels))
        self._share: Array | None = None
        self._mass = np.ones(domains)  # with fixed statistics every domain counts
        self._kernels = _kernel_cache.load("_domain_kernels")
        self._steps = Columns(geometry) if size == 1 else Rows(geometry)

    def forward(self, role: str, bottom: Sequence[Any], top: Sequence[Any], blobs: Sequence[Any], first: int) -> None:
        """Write y. Fold the batch's statistics, if it uses them, into the three blobs: from their row ``first`` on."""
        x, y = self._view(bottom[0].data), self._view(top[0].data)
        if np.may_share_memory(x, y):
            raise ValueError(_bottoms.in_place(role))
        if len(bottom) == 2:
            self._read_assignment(role, bottom[1].data)
        running = tuple(blob.data[first : first + self._geometry.domains] for blob in blobs)
        statistics = self._mean, self._variance
        if self._fixed:
            running_statistics(running, *statistics)
        else:
            self._share, self._mass = self._kernels.domain_shares(self._w)
            self._steps.moments(x, self._share, *statistics)
            _check_finite(role, self._variance)
            self._kernels.update_running(*running, *statistics, self._mass, self._geometry.size, self._fraction)
        self._inverse = self._kernels.inverse_deviation(self._variance, self._eps, self._mass)
        self._steps.normalise(x, self._w, self._mean, self._inverse, y)

    def backward(self, top: Sequence[Any], wants_x: bool, wants_w: bool, bottom: Sequence[Any]) -> None:
        """Write the requested gradients."""
        x, g = self._view(bottom[0].data), self._view(top[0].diff)
        dx = self._view(bottom[0].diff) if wants_x else None
        dw = self._dw if wants_w else None
        self._steps.gradients(x, g, self._w, self._share, self._mean, self._variance, self._inverse, dx, dw)
        if dw is not None:
            bottom[1].diff[...] = dw.reshape(bottom[1].diff.shape)

    def _read_assignment(self, role: str, data: np.ndarray) -> None:
        """Raise unless every row of w is finite, not negative and sums to 1 (within 0.05)."""
        rows = data.reshape(self._w.shape)
        wrong = self._kernels.probabilities(rows, _bottoms.SLACK, self._w)
        if wrong >= 0:
            values = np.array2string(rows[wrong], precision=4, threshold=12)
            found = f"row {wrong} of w is {values}, which sums to {rows[wrong].sum():g}"
            raise ValueError(_bottoms.not_probabilities(role, found))
        if rows.min() < 0:
            _check_columns(role, rows)

    def _view(self, array: np.ndarray) -> Array:
        return array.reshape(self._geometry.volume)


class Rows:
    """The three steps for S >= 2: kernels over rows of S values, and the small matrices between them."""

    def __init__(self, geometry: Geometry) -> None:
        self._kernels = _kernel_cache.load("_row_kernels")
        samples, channels, self._size, _ = geometry
        self._matrix = samples, channels
        self._rows = samples * channels, self._size
        self._numbers("abcd")
        self._centre()

    def moments(self, x: Array, share: Array, mean: Array, variance: Array) -> None:
        """Compute the batch's domain statistics (Eq. 1), into ``mean`` and ``variance``.

        σ²_dc = Σ_i α_id [v_ic + (m_ic - μ_dc)²] is the law of total variance: nothing large is ever subtracted.
        """
        row_mean, row_variance, spread = self._numbers("abc")
        self._run(self._kernels.row_moments, x, row_mean, row_variance)
        np.matmul(share.T, row_mean, out=mean)
        for d in range(len(mean)):
            spread[...] = formulas.spread(row_variance, row_mean, mean[d])
            np.matmul(share[:, d], spread, out=variance[d])

    def normalise(self, x: Array, w: Array, mean: Array, inverse: Array, y: Array) -> None:
        """Compute Eq. 3, into ``y``: scale_ic (x_ics - centre_ic) + offset_ic."""
        scale, offset, shift = self._numbers("abc")
        centre = self._expected_mean(w, mean, shift)
        np.matmul(w, inverse, out=scale)
        np.matmul(w, inverse * mean, out=shift)
        offset[...] = formulas.affine_offset(scale, centre, shift)
        self._run(self._kernels.row_affine, x, centre, scale, offset, y)

    def gradients(
        self,
        x: Array,
        g: Array,
        w: Array,
        share: Array | None,
        mean: Array,
        variance: Array,
        inverse: Array,
        dx: Array | None,
        dw: Array | None,
    ) -> None:
        """Write ∂x to ``dx`` and ∂w to ``dw``, unless these are None.

        The gradients go through the affine map and through the batch's statistics; if ``share`` is None, these are
        constants, and the gradients go only through the map.
        """
        fixed = share is None
        row_mean, row_variance, grad_sum, grad_dot = self._numbers("abcd")
        if dw is not None or not fixed:
            self._run(self._kernels.row_gradients, x, g, row_mean, row_variance, grad_sum, grad_dot)
            # From here on means count from one origin per channel, which keeps their squares small.
            origin = row_mean.mean(axis=0)
            np.subtract(row_mean, origin, out=row_mean)
            local_mean = mean - origin
            _add_product(grad_dot, grad_sum, row_mean)  # Σ_s g x
        if not fixed:
            total = share.T @ grad_sum
            grad_mean = formulas.mean_gradient(inverse, total)
            grad_variance = formulas.variance_gradient(inverse, formulas.about(share.T @ grad_dot, local_mean, total))
            linear = formulas.linear(grad_mean, grad_variance, local_mean)
        if dw is not None:
            dw[...] = grad_dot @ inverse.T - grad_sum @ (inverse * local_mean).T
            if not fixed:
                _add_product(row_variance, row_mean, row_mean)  # the mean of x²
                constant = formulas.constant(grad_mean, grad_variance, local_mean, variance)
                dw += row_mean @ linear.T + row_variance @ grad_variance.T + constant.sum(axis=1)
        if dx is None:
            return
        # The row sums are not needed any more: now their arrays hold the coefficients of ∂x.
        scale, slope, offset = row_variance, grad_sum, grad_dot
        if fixed:  # ∂x_ics = scale_ic g_ics: x is not read
            np.matmul(w, inverse, out=scale)
            offset.fill(0)
            centre = self._centre()
            centre.fill(0)
            self._run(self._kernels.row_affine, g, centre, scale, offset, dx)
            return
        # ∂x_ics = scale_ic g_ics + slope_ic (x_ics - centre_ic) + offset_ic.
        centre, shift = self._expected_mean(w, mean, scale), row_mean
        np.matmul(w, inverse, out=scale)
        np.matmul(w, formulas.input_slope(grad_variance, self._size), out=slope)
        np.matmul(w, linear / self._size, out=offset)
        np.subtract(centre, origin, out=shift)
        np.multiply(slope, shift, out=shift)
        np.add(offset, shift, out=offset)
        self._run(self._kernels.row_input_gradient, x, g, centre, scale, slope, offset, dx)

    def _expected_mean(self, w: Array, mean: Array, work: Array) -> Array:
        """Return each row's Σ_d w_id μ_dc, rounded to float32; ``work`` is overwritten.

        The affine maps subtract it from x first, so that rows with a large mean lose no digits.
        """
        centre = self._centre()
        centre[...] = np.matmul(w, mean, out=work)
        return centre

    def _run(self, kernel: Callable[..., None], *arrays: Array) -> None:
        """Run a kernel on rows of S values (N×C×S) and numbers of rows (N×C)."""
        kernel(*[each.reshape(self._rows) if each.ndim == 3 else each.ravel() for each in arrays])

    def _numbers(self, names: str) -> list[Array]:
        return [scratch(f"rows {name}", self._matrix) for name in names]

    def _centre(self) -> Array:
        return scratch("rows centre", self._matrix, np.float32)


_NOTHING, _NOTHING32 = np.empty((0, 0)), np.empty((0, 0), np.float32)


class Columns:
    """The steps of ``Rows`` for S = 1, where rows are single values: kernels over tiles of channels."""

    def __init__(self, geometry: Geometry) -> None:
        self._kernels = _kernel_cache.load("_column_kernels")
        samples, channels, _, domains = geometry
        self._tiles = -(-channels // self._kernels.TILE), domains, samples
        self._nothing = np.empty((self._tiles[0], 0, 0))
        self._parts()

    def moments(self, x: Array, share: Array, mean: Array, variance: Array) -> None:
        """Compute the batch's domain statistics (Eq. 1), into ``mean`` and ``variance``."""
        self._kernels.column_moments(x[:, :, 0], share, mean, variance)

    def normalise(self, x: Array, w: Array, mean: Array, inverse: Array, y: Array) -> None:
        """Compute Eq. 3, into ``y``."""
        self._kernels.column_normalise(x[:, :, 0], w, mean, inverse, y[:, :, 0])

    def gradients(
        self,
        x: Array,
        g: Array,
        w: Array,
        share: Array | None,
        mean: Array,
        variance: Array,
        inverse: Array,
        dx: Array | None,
        dw: Array | None,
    ) -> None:
        """Write ∂x and ∂w, as ``Rows.gradients`` does."""
        parts = self._parts() if dw is not None else self._nothing
        self._kernels.column_gradients(
            x[:, :, 0],
            g[:, :, 0],
            w,
            _NOTHING if share is None else share,
            mean,
            variance,
            inverse,
            _NOTHING32 if dx is None else dx[:, :, 0],
            parts,
        )
        if dw is not None:
            np.sum(parts, axis=0, out=dw.T)

    def _parts(self) -> Array:
        return scratch("columns parts", self._tiles)


def running_statistics(blobs: tuple[Array, Array, Array], mean: Array, variance: Array) -> None:
    """Return the running mean and variance (D×C): each sum divided by its divisor; zero for a domain never seen."""
    mean_sum, variance_sum, divisor = blobs
    scale = np.divide(1, divisor, out=np.zeros_like(divisor), where=divisor != 0)[:, None]
    np.multiply(mean_sum, scale, out=mean)
    np.multiply(variance_sum, scale, out=variance)


def _add_product(total: Array, first: Array, second: Array) -> None:
    """Compute total += first · second, a few rows at a time: no array of their size is made."""
    step = max(1, 4096 // total.shape[1])
    for start in range(0, len(total), step):
        part = slice(start, start + step)
        total[part] += first[part] * second[part]


def _check_columns(role: str, rows: NDArray) -> None:
    """Raise if the entries below zero of a column of w outweigh its sum, by which shares are divided."""
    mass = rows.sum(axis=0, dtype=np.float64)
    cancelled = -np.minimum(rows, 0).sum(axis=0, dtype=np.float64) > mass
    if cancelled.any():
        column = int(cancelled.argmax())
        raise ValueError(_bottoms.not_probabilities(role, _bottoms.cancelled(column, mass[column])))


def _check_finite(role: str, variance: Array) -> None:
    """Raise unless σ² (D×C) is finite in float32; it is not if x has a NaN or an infinity.

    Values that rounding left below 0 become 0.
    """
    np.maximum(variance, 0, out=variance)  # keeps NaN
    if not variance.max() <= _LARGEST:
        domain, channel = np.argwhere(~(variance <= _LARGEST))[0]
        raise ValueError(_bottoms.not_finite(role, f"channel {channel}, domain {domain}", variance[domain, channel]))
