"""Softmax, its entropy, and their gradients (NumPy only). Every function works along axis 1."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]


def log_softmax(logits: Array) -> Array:
    """log p along axis 1, in the precision of ``logits``; finite for finite logits of any size."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def softmax_gradient(p: Array, grad: Array) -> Array:
    """∂L/∂logits from p and ∂L/∂p (one shape): p (∂p - Σ p ∂p)."""
    return p * (grad - (p * grad).sum(axis=1, keepdims=True))


def entropy(log_p: Array) -> Array:
    """-Σ p log p along axis 1, which is kept with length 1."""
    return -(np.exp(log_p) * log_p).sum(axis=1, keepdims=True)


def entropy_gradient(log_p: Array) -> Array:
    """∂ entropy / ∂logits: -p (log p + entropy)."""
    return -np.exp(log_p) * (log_p + entropy(log_p))
