"""Softmax, its entropy, and their gradients (NumPy only). Every function works along axis 1."""

import numpy as np
from numpy.typing import NDArray

from caffe_layers import _formulas as formulas

Array = NDArray[np.floating]


def log_softmax(logits: Array) -> Array:
    """log p along axis 1, in the precision of ``logits``; finite for finite logits of any size."""
    largest = logits.max(axis=1, keepdims=True)
    return formulas.log_probability(logits, largest, np.exp(logits - largest).sum(axis=1, keepdims=True))


def softmax_gradient(p: Array, grad: Array) -> Array:
    """∂L/∂logits from p and ∂L/∂p (one shape): p (∂p - Σ p ∂p)."""
    return formulas.softmax_gradient(p, grad, (p * grad).sum(axis=1, keepdims=True))


def entropy(log_p: Array) -> Array:
    """-Σ p log p along axis 1, which is kept with length 1."""
    return formulas.surprise(log_p).sum(axis=1, keepdims=True)


def entropy_gradient(log_p: Array) -> Array:
    """∂ entropy / ∂logits: -p (log p + entropy)."""
    return formulas.entropy_gradient(log_p, entropy(log_p))
