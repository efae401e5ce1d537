"""Domain assignment and entropy loss on the CPU."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from caffe_layers import _bottoms, _softmax


class CpuAssignment:
    """DomainAssignmentLayer for n×k logits, whose k columns begin at ``first`` of D."""

    def __init__(self, shape: tuple[int, int], first: int) -> None:
        self._columns = slice(first, first + shape[1])
        self._p = np.zeros(shape)

    def forward(self, role: str, bottom: Sequence[Any], top: Sequence[Any]) -> None:
        """Write w."""
        logits = bottom[0].data.reshape(self._p.shape).astype(np.float64)
        np.exp(_softmax.log_softmax(logits), out=self._p)
        if len(bottom) == 2:
            rows, group = self._p.shape
            labels = _bottoms.labels(role, bottom[1].data.reshape(rows), group)
            known = np.flatnonzero(labels >= 0)
            self._p[known] = 0
            self._p[known, labels[known]] = 1
        w = top[0].data
        w.fill(0)
        w[:, self._columns] = self._p

    def backward(self, top: Sequence[Any], bottom: Sequence[Any]) -> None:
        """Write the gradient of the logits."""
        # The gradient of a known, one-hot row comes out as zero.
        grad = _softmax.softmax_gradient(self._p, top[0].diff[:, self._columns])
        bottom[0].diff[...] = grad.reshape(bottom[0].diff.shape)


class CpuEntropy:
    """EntropyLossLayer for N×K×T logits."""

    def __init__(self, shape: tuple[int, int, int]) -> None:
        self._log_p = np.zeros(shape)
        self._counts = np.ones(shape[0], bool)

    def forward(self, role: str, bottom: Sequence[Any], top: Sequence[Any]) -> None:
        """Write the loss."""
        logits = bottom[0].data.reshape(self._log_p.shape).astype(np.float64)
        self._log_p[...] = _softmax.log_softmax(logits)
        if len(bottom) == 2:
            labels = _bottoms.labels(role, bottom[1].data.reshape(len(self._counts)), None)
            np.equal(labels, -1, out=self._counts)
        self._number = max(1, int(self._counts.sum()) * self._log_p.shape[2])
        top[0].data[...] = _softmax.entropy(self._log_p)[self._counts].sum() / self._number

    def backward(self, top: Sequence[Any], bottom: Sequence[Any]) -> None:
        """Write the gradient of the logits."""
        grad = _softmax.entropy_gradient(self._log_p)
        grad *= float(top[0].diff) / self._number
        grad[~self._counts] = 0
        bottom[0].diff[...] = grad.reshape(bottom[0].diff.shape)
