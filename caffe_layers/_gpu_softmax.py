"""Domain assignment and entropy loss on a GPU (see softmax.cu)."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from caffe_layers import _bottoms
from caffe_layers._backend import Fault
from caffe_layers._device import Array, Device

BLOCK = 128


def _blocks(threads: int) -> int:
    return -(-threads // BLOCK)


class GpuAssignment:
    """DomainAssignmentLayer for logits n×k, which fill w (n×D) from column ``first`` on. One kernel each way."""

    def __init__(self, device: Device, fault: Fault, shape: tuple[int, int], first: int, domains: int) -> None:
        self._device, self._fault = device, fault
        self._shape, self._domains = shape, domains
        self._numbers = tuple(np.int32(number) for number in (*shape, first, domains))
        with device.active():
            self._kernels = device.kernels("softmax")
            self._p = device.empty(shape, np.float64)

    def forward(self, role: str, bottom: Sequence[Any], top: Sequence[Any]) -> None:
        """Write w."""
        self._fault.check(lambda _, row, value: _bottoms.wrong_label(role, row, value, self._shape[1]))
        rows = self._shape[0]
        with self._device.active():
            logits = self._device.data(bottom[0], self._shape)
            labels = self._device.data(bottom[1], (rows,)) if len(bottom) == 2 else None
            w = self._device.data(top[0], (rows, self._domains))
            self._kernels.launch(
                "assign", _blocks(rows), BLOCK, logits, labels, self._p, w, self._fault.argument, *self._numbers
            )

    def backward(self, top: Sequence[Any], bottom: Sequence[Any]) -> None:
        """Write the gradient of the logits."""
        rows = self._shape[0]
        with self._device.active():
            dw = self._device.diff(top[0], (rows, self._domains))
            dlogits = self._device.diff(bottom[0], self._shape)
            self._kernels.launch("assign_gradient", _blocks(rows), BLOCK, self._p, dw, dlogits, *self._numbers)


class GpuEntropy:
    """EntropyLossLayer for N×K×T logits. Two kernels forward, one backward."""

    def __init__(self, device: Device, fault: Fault, shape: tuple[int, int, int]) -> None:
        self._device, self._fault = device, fault
        self._shape = shape
        self._blocks = _blocks(shape[0] * shape[2])
        self._numbers = tuple(np.int32(number) for number in shape)
        with device.active():
            self._kernels = device.kernels("softmax")
            self._entropy = device.empty((shape[0], shape[2]), np.float64)
            self._number = device.empty((1,), np.float64)

    def forward(self, role: str, bottom: Sequence[Any], top: Sequence[Any]) -> None:
        """Write the loss."""
        self._fault.check(lambda _, row, value: _bottoms.wrong_label(role, row, value, None))
        with self._device.active():
            parts = self._device.scratch("entropy parts", (2, self._blocks))
            loss = self._device.data(top[0], (1,))
            self._kernels.launch(
                "entropies",
                self._blocks,
                BLOCK,
                self._device.data(bottom[0], self._shape),
                _labels(self._device, bottom, self._shape),
                self._entropy,
                parts,
                self._fault.argument,
                *self._numbers,
            )
            self._kernels.launch("entropy_loss", 1, BLOCK, parts, self._number, loss, np.int32(self._blocks))

    def backward(self, top: Sequence[Any], bottom: Sequence[Any]) -> None:
        """Write the gradient of the logits."""
        with self._device.active():
            self._kernels.launch(
                "entropy_loss_gradient",
                self._blocks,
                BLOCK,
                self._device.data(bottom[0], self._shape),
                _labels(self._device, bottom, self._shape),
                self._entropy,
                self._number,
                self._device.diff(top[0], (1,)),
                self._device.diff(bottom[0], self._shape),
                *self._numbers,
            )


class GpuMeanEntropy:
    """EntropyLossLayer with ``of_mean``, for N×K×T logits. Two kernels forward, one backward."""

    def __init__(self, device: Device, fault: Fault, shape: tuple[int, int, int]) -> None:
        self._device, self._fault = device, fault
        self._shape = shape
        self._numbers = tuple(np.int32(number) for number in shape)
        with device.active():
            self._kernels = device.kernels("softmax")
            self._mean = device.empty((shape[1],), np.float64)
            self._number = device.empty((1,), np.float64)

    def forward(self, role: str, bottom: Sequence[Any], top: Sequence[Any]) -> None:
        """Write the loss."""
        self._fault.check(lambda _, row, value: _bottoms.wrong_label(role, row, value, None))
        with self._device.active():
            self._kernels.launch(
                "mean_probabilities",
                self._shape[1],
                BLOCK,
                self._device.data(bottom[0], self._shape),
                _labels(self._device, bottom, self._shape),
                self._mean,
                self._number,
                self._fault.argument,
                *self._numbers,
            )
            loss = self._device.data(top[0], (1,))
            self._kernels.launch("mean_entropy_loss", 1, BLOCK, self._mean, self._number, loss, self._numbers[1])

    def backward(self, top: Sequence[Any], bottom: Sequence[Any]) -> None:
        """Write the gradient of the logits."""
        with self._device.active():
            self._kernels.launch(
                "mean_entropy_loss_gradient",
                _blocks(self._shape[0] * self._shape[2]),
                BLOCK,
                self._device.data(bottom[0], self._shape),
                _labels(self._device, bottom, self._shape),
                self._mean,
                self._number,
                self._device.diff(top[0], (1,)),
                self._device.diff(bottom[0], self._shape),
                *self._numbers,
            )


def _labels(device: Device, bottom: Sequence[Any], shape: tuple[int, int, int]) -> Array | None:
    return device.data(bottom[1], (shape[0],)) if len(bottom) == 2 else None
