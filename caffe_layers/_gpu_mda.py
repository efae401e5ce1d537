"""mDA on a GPU: at most three kernels forward and four backward, and nothing that waits for them (see mda.cu).

The host only starts kernels, but it can be slower than the GPU. So objects that do not change are made once.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from caffe_layers import _bottoms
from caffe_layers._backend import Fault, Geometry, Place
from caffe_layers._device import Array, Device

# A block of the N×C kernels has TILE channels, and SLICES threads for each, which share out the samples.
TILE, SLICES = 32, 16
# Threads in a block: of the kernels over rows, and of those over the numbers of w.
BLOCK, SUM_BLOCK = 256, 128
# A row of so many values gets a whole block, with four values a thread.
WHOLE_BLOCK = 4 * BLOCK


def lanes(size: int) -> int:
    """Return how many threads share a row of ``size`` values.

    It is a power of two up to a warp's 32, so that each has about eight values.
    """
    if size >= WHOLE_BLOCK:
        return BLOCK
    return min(32, 1 << max(0, (size - 1) // 8).bit_length())


class GpuMda:
    """MDALayer on Caffe's GPU, in the memory of pycaffe's blobs.

    Forward keeps for backward: the moments and centres of rows (N×C), the domains' masses (D), means, variances and
    inverse deviations (D×C). These are float64, the centres float32. All layers share the other arrays.
    """

    def __init__(
        self, device: Device, fault: Fault, geometry: Geometry, eps: float, fraction: float, fixed: bool
    ) -> None:
        self._device, self._fault, self._geometry, self._fixed = device, fault, geometry, fixed
        samples, channels, size, domains = geometry
        self._flat = size == 1
        self._tiles = -(-channels // TILE)
        rows, share = samples * channels, lanes(size)
        self._row_grid = -(-rows // (BLOCK // share))
        self._row_numbers = np.int64(rows), np.int32(size), np.int32(share)
        self._sizes = np.int32(samples), np.int32(channels), np.int32(size)
        self._choices = np.float64(eps), np.float64(fraction), np.int32(fixed)
        with device.active():
            self._kernels = device.kernels(
                "mda", DOMAINS=domains, FLAT=int(self._flat), TILE=TILE, SLICES=SLICES, SLACK=f"{_bottoms.SLACK}f"
            )
            self._ones = device.ones((samples, domains))
            self._row_mean = self._row_variance = self._centre = None
            if not self._flat:
                self._row_mean, self._row_variance = (device.empty((samples, channels), np.float64) for _ in range(2))
                self._centre = device.empty((samples, channels), np.float32)
            self._mass = device.empty((domains,), np.float64)
            self._mean, self._variance, self._inverse = (
                device.empty((domains, channels), np.float64) for _ in range(3)
            )

    def forward(self, role: str, bottom: Sequence[Any], top: Sequence[Any], blobs: Sequence[Any], first: int) -> None:
        """Write y. Fold the batch's statistics, if it uses them, into the three blobs: from their row ``first`` on."""
        self._fault.check(lambda place, number, found: _describe(role, place, number, found))
        device, geometry = self._device, self._geometry
        with device.active():
            x, y = device.data(bottom[0], geometry.volume), device.data(top[0], geometry.volume)
            if x is y:
                raise ValueError(_bottoms.in_place(role))
            scale = offset = None
            if not self._flat:
                scale, offset = self._matrix("mda scale"), self._matrix("mda offset")
                if not self._fixed:
                    self._launch_rows("row_moments", x, self._row_mean, self._row_variance)
            self._launch_tiles(
                "statistics",
                x,
                self._row_mean,
                self._row_variance,
                self._w(bottom),
                *self._running(blobs, first),
                self._mass,
                self._mean,
                self._variance,
                self._inverse,
                self._centre,
                scale,
                offset,
                y if self._flat else None,
                self._fault.argument,
                *self._sizes,
                *self._choices,
            )
            if not self._flat:
                self._launch_rows("row_affine", x, self._centre, scale, offset, y)

    def backward(self, top: Sequence[Any], wants_x: bool, wants_w: bool, bottom: Sequence[Any]) -> None:
        """Write the requested gradients."""
        device, geometry = self._device, self._geometry
        with device.active():
            x, g = device.data(bottom[0], geometry.volume), device.diff(top[0], geometry.volume)
            dx = device.diff(bottom[0], geometry.volume) if wants_x else None
            scale = slope = offset = grad_sum = grad_dot = parts = None
            if not self._flat:
                scale, slope, offset = (self._matrix(name) for name in ("mda scale", "mda slope", "mda offset"))
                grad_sum, grad_dot = (self._matrix(name, np.float64) for name in ("mda sum", "mda dot"))
                if wants_w or not self._fixed:
                    self._launch_rows("row_gradients", x, g, self._centre, grad_sum, grad_dot)
            if wants_w:
                parts = device.scratch("mda parts", (self._tiles, geometry.samples, geometry.domains))
            self._launch_tiles(
                "gradients",
                x,
                g,
                self._row_mean,
                self._row_variance,
                grad_sum,
                grad_dot,
                self._centre,
                self._w(bottom),
                self._mass,
                self._mean,
                self._variance,
                self._inverse,
                scale,
                slope,
                offset,
                dx if self._flat else None,
                parts,
                *self._sizes,
                self._choices[-1],
                np.int32(wants_x),
                np.int32(wants_w),
            )
            if wants_w:
                size = geometry.samples * geometry.domains
                dw = device.diff(bottom[1], (geometry.samples, geometry.domains))
                numbers = np.int32(size), np.int32(self._tiles)
                self._kernels.launch("weight_gradient", -(-size // SUM_BLOCK), SUM_BLOCK, parts, dw, *numbers)
            if wants_x and not self._flat:
                if self._fixed:  # slope and offset are zero: x is not needed
                    self._launch_rows("row_affine", g, slope, scale, offset, dx)
                else:
                    self._launch_rows("row_input_gradient", x, g, self._centre, scale, slope, offset, dx)

    def _launch_rows(self, name: str, *arguments: Array) -> None:
        self._kernels.launch(name, self._row_grid, BLOCK, *arguments, *self._row_numbers)

    def _launch_tiles(self, name: str, *arguments: Any) -> None:
        self._kernels.launch(name, self._tiles, (TILE, SLICES), *arguments)

    def _running(self, blobs: Sequence[Any], first: int) -> list[Array]:
        """Return Σ mean and Σ variance (D×C) and the divisors (D) of this layer's domains."""
        shape = self._geometry.domains, self._geometry.channels
        sums = [self._device.data(blob, shape, first * shape[1]) for blob in blobs[:2]]
        return [*sums, self._device.data(blobs[2], shape[:1], first)]

    def _w(self, bottom: Sequence[Any]) -> Array:
        if len(bottom) == 1:
            return self._ones
        return self._device.data(bottom[1], (self._geometry.samples, self._geometry.domains))

    def _matrix(self, name: str, dtype: type = np.float32) -> Array:
        return self._device.scratch(name, self._geometry[:2], dtype)


def _describe(role: str, place: Place, number: int, found: float) -> str:
    """Describe the wrong value that a kernel found, in a row or a column of w or a channel of x."""
    if place is Place.CHANNEL:
        return _bottoms.not_finite(role, f"channel {number}", found, kept=False)
    if place is Place.COLUMN:
        return _bottoms.not_probabilities(role, _bottoms.cancelled(number, found))
    found_in = f"row {number} of w is none of probabilities (its sum, or an element, is {found:g})"
    return _bottoms.not_probabilities(role, found_in)
