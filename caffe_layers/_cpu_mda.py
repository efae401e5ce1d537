"""mDA on the CPU."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from caffe_layers import _bottoms
from caffe_layers import _mathematics as mathematics
from caffe_layers._cpu_columns import ColumnBackend
from caffe_layers._cpu_rows import RowBackend
from caffe_layers._mathematics import Array
from caffe_layers._problem import Problem


class CpuMda:
    """The layer on blobs of pycaffe, in the host's memory."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        samples, channels, size = problem.volume
        domains = problem.domains
        self._w = np.ones((samples, domains))
        self._dw = np.zeros((samples, domains))
        self._mean = np.zeros((domains, channels))
        self._variance = np.zeros((domains, channels))
        self._rows = ColumnBackend(samples, channels, domains) if size == 1 else RowBackend(samples, channels, size)

    def forward(self, role: str, bottom: Sequence[Any], top: Sequence[Any], blobs: Sequence[Any], first: int) -> None:
        """Write y; with the batch's statistics, fold them into the layer's three blobs, from domain ``first`` on."""
        x, y = self._view(bottom[0].data), self._view(top[0].data)
        if np.may_share_memory(x, y):
            raise ValueError(_bottoms.in_place(role))
        if len(bottom) == 2:
            self._w[...] = _bottoms.probabilities(role, "w", bottom[1].data.reshape(self._w.shape))
        problem = self._problem
        running = tuple(blob.data[first : first + problem.domains] for blob in blobs)
        if problem.fixed:
            mathematics.running_statistics(running, self._mean, self._variance)
            self._inverse = mathematics.inverse_deviation(self._variance, problem.eps)
        else:
            self._share, mass = mathematics.domain_shares(self._w)
            self._rows.moments(x, self._share, self._mean, self._variance)
            mathematics.update_running(running, self._mean, self._variance, mass, problem.size, problem.fraction)
            self._inverse = mathematics.inverse_deviation(self._variance, problem.eps, mass)
        self._rows.normalise(x, self._w, self._mean, self._inverse, y)

    def backward(self, top: Sequence[Any], wants_x: bool, wants_w: bool, bottom: Sequence[Any]) -> None:
        """Write the gradients that are wanted."""
        x, g = self._view(bottom[0].data), self._view(top[0].diff)
        dx = self._view(bottom[0].diff) if wants_x else None
        dw = self._dw if wants_w else None
        if self._problem.fixed:
            self._rows.fixed_gradients(x, g, self._w, self._mean, self._inverse, dx, dw)
        else:
            self._rows.batch_gradients(x, g, self._w, self._share, self._mean, self._variance, self._inverse, dx, dw)
        if dw is not None:
            bottom[1].diff[...] = dw.reshape(bottom[1].diff.shape)

    def _view(self, array: np.ndarray) -> Array:
        return array.reshape(self._problem.volume)
