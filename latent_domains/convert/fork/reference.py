"""The fork's two layers as Caffe Python layers, only forward, for comparison with a converted net.

They are written from their formulas in double precision and share nothing with ``caffe_layers``.
"""

import json

import caffe
import numpy as np


class MultiModalBatchNorm(caffe.Layer):
    """One latent domain's share of the normalised features: y_i = w_i (x_i - μ) / √(σ² + ε).

    Bottoms: x (N×C×…) and the domain's weights w (N×1). μ and σ² are the means of x and of (x - μ)² over rows and
    positions, weighted by w; in the TEST phase, or with ``use_global_stats``, those kept in the three blobs, sums
    (C, C) and their divisor (1), as in Caffe's BatchNorm.
    """

    def setup(self, bottom, top) -> None:
        param = json.loads(self.param_str)
        self._eps, self._fraction = param["eps"], param["moving_average_fraction"]
        self._running = param.get("use_global_stats", self.phase == caffe.TEST)
        if len(self.blobs) == 0:
            for size in (bottom[0].shape[1], bottom[0].shape[1], 1):
                self.blobs.add_blob(size)

    def reshape(self, bottom, top) -> None:
        top[0].reshape(*bottom[0].shape)

    def forward(self, bottom, top) -> None:
        """Write y; with the batch's statistics, add them to the kept ones."""
        n, channels = bottom[0].shape[:2]
        x = bottom[0].data.astype(np.float64).reshape(n, channels, -1)
        w = bottom[1].data.astype(np.float64).reshape(n, 1, 1)
        if self._running:
            divisor = float(self.blobs[2].data[0])
            mean, variance = (
                self.blobs[i].data.astype(np.float64) / divisor if divisor else np.zeros(channels) for i in (0, 1)
            )
        else:
            mass = w.sum() * x.shape[2] or 1  # a domain without mass gives zeros; the fork divides by zero there
            mean = (w * x).sum(axis=(0, 2)) / mass
            variance = (w * (x - mean[:, None]) ** 2).sum(axis=(0, 2)) / mass
            count = n * x.shape[2]
            for blob, value in zip(self.blobs, (mean, variance * count / max(count - 1, 1), 1), strict=True):
                blob.data[...] = blob.data * self._fraction + value
        y = w * (x - mean[:, None]) / np.sqrt(variance + self._eps)[:, None]
        top[0].data[...] = y.reshape(bottom[0].shape)

    def backward(self, top, propagate_down, bottom) -> None:
        raise NotImplementedError("this layer is for comparing outputs")


class EntropyLoss(caffe.Layer):
    """Mean entropy of the softmax over axis 1 of the bottom (N×K×…): -(1/n) Σ p log p."""

    def setup(self, bottom, top) -> None:
        pass

    def reshape(self, bottom, top) -> None:
        top[0].reshape()

    def forward(self, bottom, top) -> None:
        z = bottom[0].data.astype(np.float64)
        p = np.exp(z - z.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        top[0].data[...] = -(p * np.log(np.maximum(p, np.finfo(np.float32).tiny))).sum() * z.shape[1] / z.size

    def backward(self, top, propagate_down, bottom) -> None:
        raise NotImplementedError("this layer is for comparing outputs")
