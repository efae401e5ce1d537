"""Domain assignment and entropy loss on the CPU: softmax along axis 1, its entropy, and their gradients in float64."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from caffe_layers import _bottoms
from caffe_layers import _formulas as formulas

Array = NDArray[np.floating]


class CpuAssignment:
    """DomainAssignmentLayer for logits n×k, which fill w (n×D) from column ``first`` on."""

    def __init__(self, shape: tuple[int, int], first: int) -> None:
        self._columns = slice(first, first + shape[1])
        self._p = np.zeros(shape)

    def forward(self, role: str, bottom: Sequence[Any], top: Sequence[Any]) -> None:
        """Write w."""
        logits = bottom[0].data.reshape(self._p.shape).astype(np.float64)
        np.exp(log_softmax(logits), out=self._p)
        if len(bottom) == 2:
            rows, group = self._p.shape
            labels = _labels(role, bottom[1].data.reshape(rows), group)
            known = np.flatnonzero(labels >= 0)
            self._p[known] = 0
            self._p[known, labels[known]] = 1
        w = top[0].data
        w.fill(0)
        w[:, self._columns] = self._p

    def backward(self, top: Sequence[Any], bottom: Sequence[Any]) -> None:
        """Write the gradient of the logits."""
        # The gradient of a known, one-hot row comes out as zero.
        grad = softmax_gradient(self._p, top[0].diff[:, self._columns])
        bottom[0].diff[...] = grad.reshape(bottom[0].diff.shape)


class CpuEntropy:
    """EntropyLossLayer for N×K×T logits."""

    def __init__(self, shape: tuple[int, int, int]) -> None:
        self._log_p = np.zeros(shape)
        self._counts = np.ones(shape[0], bool)

    def forward(self, role: str, bottom: Sequence[Any], top: Sequence[Any]) -> None:
        """Write the loss."""
        logits = bottom[0].data.reshape(self._log_p.shape).astype(np.float64)
        self._log_p[...] = log_softmax(logits)
        if len(bottom) == 2:
            labels = _labels(role, bottom[1].data.reshape(len(self._counts)), None)
            np.equal(labels, -1, out=self._counts)
        self._number = max(1, int(self._counts.sum()) * self._log_p.shape[2])
        top[0].data[...] = self._loss()

    def backward(self, top: Sequence[Any], bottom: Sequence[Any]) -> None:
        """Write the gradient of the logits."""
        grad = self._gradient()
        grad *= float(top[0].diff) / self._number
        grad[~self._counts] = 0
        bottom[0].diff[...] = grad.reshape(bottom[0].diff.shape)

    def _loss(self) -> float:
        return entropy(self._log_p)[self._counts].sum() / self._number

    def _gradient(self) -> Array:
        """Return the gradient of the logits (N×K×T), times the number of predictions that count."""
        return entropy_gradient(self._log_p)


class CpuMeanEntropy(CpuEntropy):
    """EntropyLossLayer with ``of_mean``."""

    def _loss(self) -> float:
        mean = np.exp(self._log_p)[self._counts].sum(axis=(0, 2)) / self._number
        with np.errstate(divide="ignore"):  # of a class that no row predicts
            self._log_mean = np.log(mean).reshape(1, -1, 1)
        return entropy(self._log_mean).item() if self._counts.any() else 0.0

    def _gradient(self) -> Array:
        return softmax_gradient(np.exp(self._log_p), -formulas.finite_log(self._log_mean))


def log_softmax(logits: Array) -> Array:
    """Return log p, in the precision of ``logits``; finite for finite logits of any size."""
    largest = logits.max(axis=1, keepdims=True)
    return formulas.log_probability(logits, largest, np.exp(logits - largest).sum(axis=1, keepdims=True))


def softmax_gradient(p: Array, grad: Array) -> Array:
    """Return ∂L/∂logits from p and ∂L/∂p: p (∂p - Σ p ∂p)."""
    return formulas.softmax_gradient(p, grad, (p * grad).sum(axis=1, keepdims=True))


def entropy(log_p: Array) -> Array:
    """Return -Σ p log p (h of section 3.4, for one prediction); axis 1 is kept with length 1."""
    return formulas.surprise(log_p).sum(axis=1, keepdims=True)


def entropy_gradient(log_p: Array) -> Array:
    """Return ∂ entropy / ∂logits: -p (log p + entropy)."""
    return formulas.entropy_gradient(log_p, entropy(log_p))


def _labels(role: str, values: NDArray, limit: int | None) -> NDArray[np.int64]:
    """Return integer labels from a blob's floats. Raises unless each is -1 or 0 to ``limit`` - 1 (None: no limit)."""
    wrong = ~((values >= -1) & (values == np.floor(values)) & (values < (np.inf if limit is None else limit)))
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(_bottoms.wrong_label(role, row, values[row], limit))
    return values.astype(np.int64)
