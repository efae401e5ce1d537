"""mDA on a GPU: at most three kernels forward and four backward, and nothing that waits for them (see mda.cu)."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from caffe_layers import _bottoms
from caffe_layers._device import Array, Device
from caffe_layers._fault import Fault
from caffe_layers._problem import Problem

# Threads of a block of the N×C kernels: channels, and the parts that the samples are shared out into.
TILE, SLICES = 32, 16
# Threads of a block over rows, and of one over the numbers of w.
BLOCK, SUM_BLOCK = 256, 128
# From here on a row is worth a whole block: four values a thread.
WHOLE_BLOCK = 4 * BLOCK


def lanes(size: int) -> int:
    """How many threads share a row of ``size`` values: about eight values each, a power of two up to a warp's 32."""
    if size >= WHOLE_BLOCK:
        return BLOCK
    return min(32, 1 << max(0, (size - 1) // 8).bit_length())


class GpuMda:
    """The layer on Caffe's device. Blobs are pycaffe's; their memory is used in place.

    What forward leaves for backward, double but for ``centre``: the moments of rows (N×C) and the domains' masses (D),
    means, variances and inverse deviations (D×C). All else lies in arrays that layers share.
    """

    def __init__(self, device: Device, problem: Problem) -> None:
        self._device = device
        self._problem = problem
        self._flat = problem.size == 1
        self._rows = problem.samples * problem.channels
        with device.active():
            self._kernels = device.kernels(
                "mda",
                DOMAINS=problem.domains,
                FLAT=int(self._flat),
                TILE=TILE,
                SLICES=SLICES,
                SLACK=f"{_bottoms.SLACK}f",
            )
            self._fault = Fault(device)
            self._ones = device.ones((problem.samples, problem.domains))
            matrix, statistics = (problem.samples, problem.channels), (problem.domains, problem.channels)
            self._row_mean = self._row_variance = self._centre = None
            if not self._flat:
                self._row_mean, self._row_variance = (device.empty(matrix, np.float64) for _ in range(2))
                self._centre = device.empty(matrix, np.float32)
            self._mass = device.empty(statistics[:1], np.float64)
            self._mean, self._variance, self._inverse = (device.empty(statistics, np.float64) for _ in range(3))

    def forward(
        self, role: str, bottom: Sequence[Any], top: Sequence[Any], blobs: Sequence[Any], columns: slice
    ) -> None:
        """Write y; with the batch's statistics, fold them into the ``columns`` of the layer's three blobs."""
        self._fault.check(
            lambda row, found: _bottoms.not_probabilities(
                role, f"row {row} of w is none of probabilities (its sum, or an element, is {found:g})"
            )
        )
        if self._device.address(bottom[0]) == self._device.address(top[0]):
            raise ValueError(_bottoms.in_place(role))
        problem = self._problem
        with self._device.active():
            x, y = self._data(bottom[0]), self._data(top[0])
            sums = [self._device.data(blob, tuple(blob.shape))[columns] for blob in blobs]
            scale = offset = None
            if not self._flat:
                scale, offset = (self._matrix(name) for name in ("scale", "offset"))
                if not problem.fixed:
                    self._launch_rows("row_moments", x, self._row_mean, self._row_variance)
            self._launch_tiles(
                "statistics", x, self._row_mean, self._row_variance, self._w(bottom), *sums,
                self._mass, self._mean, self._variance, self._inverse, self._centre, scale, offset,
                y if self._flat else None, self._fault.argument, *self._sizes(),
                np.float64(problem.eps), np.float64(problem.fraction), np.int32(problem.fixed),
            )  # fmt: skip
            if not self._flat:
                self._launch_rows("row_affine", x, self._centre, scale, offset, y)

    def backward(self, top: Sequence[Any], wants_x: bool, wants_w: bool, bottom: Sequence[Any]) -> None:
        """Write the gradients that are wanted."""
        fixed = np.int32(self._problem.fixed)
        with self._device.active():
            x, g = self._data(bottom[0]), self._device.diff(top[0], self._problem.volume)
            dx = self._device.diff(bottom[0], self._problem.volume) if wants_x else None
            scale = slope = offset = grad_sum = grad_dot = None
            if not self._flat:
                scale, slope, offset = (self._matrix(name) for name in ("scale", "slope", "offset"))
                grad_sum, grad_dot = (self._matrix(name, np.float64) for name in ("sum", "dot"))
                if wants_w or not fixed:
                    self._launch_rows("row_gradients", x, g, self._centre, grad_sum, grad_dot)
            tiles = -(-self._problem.channels // TILE)
            parts = self._device.scratch("mda parts", (tiles, *self._ones.shape)) if wants_w else None
            self._launch_tiles(
                "gradients", x, g, self._row_mean, self._row_variance, grad_sum, grad_dot, self._centre,
                self._w(bottom), self._mass, self._mean, self._variance, self._inverse, scale, slope, offset,
                dx if self._flat else None, parts, *self._sizes(), fixed, np.int32(wants_x), np.int32(wants_w),
            )  # fmt: skip
            if wants_w:
                dw = self._device.diff(bottom[1], self._ones.shape)
                size = self._problem.samples * self._problem.domains
                grid = -(-size // SUM_BLOCK)
                self._kernels.launch("weight_gradient", grid, SUM_BLOCK, parts, dw, np.int32(size), np.int32(tiles))
            if wants_x and not self._flat:
                if fixed:  # slope and offset are zero: x is not needed
                    self._launch_rows("row_affine", g, slope, scale, offset, dx)
                else:
                    self._launch_rows("row_input_gradient", x, g, self._centre, scale, slope, offset, dx)

    def _launch_rows(self, name: str, *arguments: Array) -> None:
        size = self._problem.size
        share = lanes(size)
        grid = -(-self._rows // (BLOCK // share))
        self._kernels.launch(name, grid, BLOCK, *arguments, np.int64(self._rows), np.int32(size), np.int32(share))

    def _launch_tiles(self, name: str, *arguments: Any) -> None:
        self._kernels.launch(name, -(-self._problem.channels // TILE), (TILE, SLICES), *arguments)

    def _sizes(self) -> tuple[np.int32, np.int32, np.int32]:
        return np.int32(self._problem.samples), np.int32(self._problem.channels), np.int32(self._problem.size)

    def _data(self, blob: Any) -> Array:
        return self._device.data(blob, self._problem.volume)

    def _w(self, bottom: Sequence[Any]) -> Array:
        return self._device.data(bottom[1], self._ones.shape) if len(bottom) == 2 else self._ones

    def _matrix(self, name: str, dtype: type = np.float32) -> Array:
        return self._device.scratch(f"mda {name}", (self._problem.samples, self._problem.channels), dtype)
