"""The layers written as loops straight from the paper's formulas, in float64: slow, and with nothing to get wrong."""

import math

import numpy as np


def flat(array):
    """A blob as N×C×S, in float64."""
    return array.reshape(*array.shape[:2], -1).astype(np.float64)


def domain_statistics(x, w):
    """Eq. 1 and 2 over x (N×C×S) and w (N×D): means and variances (D×C), zeros where a domain has no mass."""
    samples, channels, size = x.shape
    domains = w.shape[1]
    mean = np.zeros((domains, channels))
    variance = np.zeros((domains, channels))
    for d in range(domains):
        mass = sum(float(w[i, d]) for i in range(samples))
        if mass == 0:
            continue
        for c in range(channels):
            for i in range(samples):
                for s in range(size):
                    mean[d, c] += w[i, d] / mass * float(x[i, c, s]) / size
            for i in range(samples):
                for s in range(size):
                    variance[d, c] += w[i, d] / mass * (float(x[i, c, s]) - mean[d, c]) ** 2 / size
    return mean, variance


def normalise(x, w, mean, variance, eps):
    """Eq. 3 with given statistics: y (N×C×S)."""
    y = np.zeros(x.shape)
    for i, c, s in np.ndindex(*x.shape):
        for d in range(w.shape[1]):
            if w[i, d] != 0:
                y[i, c, s] += w[i, d] * (float(x[i, c, s]) - mean[d, c]) / math.sqrt(variance[d, c] + eps)
    return y


def mda(x, w, eps):
    """Eq. 1-3: y (N×C×S) from the batch's own statistics."""
    return normalise(x, w, *domain_statistics(x, w), eps)


def softmax_rows(logits):
    """Softmax of each row of an n×k array."""
    p = np.zeros(logits.shape)
    for i in range(logits.shape[0]):
        largest = max(float(z) for z in logits[i])
        total = sum(math.exp(float(z) - largest) for z in logits[i])
        for k in range(logits.shape[1]):
            p[i, k] = math.exp(float(logits[i, k]) - largest) / total
    return p


def assignment(logits, labels, domains, first):
    """The rows of w (n×D): softmax at columns first …, one-hot where the label is known."""
    w = np.zeros((logits.shape[0], domains))
    p = softmax_rows(logits)
    for i in range(logits.shape[0]):
        for k in range(logits.shape[1]):
            known = labels is not None and labels[i] >= 0
            w[i, first + k] = (1.0 if labels[i] == k else 0.0) if known else p[i, k]
    return w


def entropy(logits, labels=None):
    """h_C, h_D: the mean over predictions that count of -Σ_k p log p, for logits N×K×T."""
    total, count = 0.0, 0
    for i in range(logits.shape[0]):
        if labels is not None and labels[i] >= 0:
            continue
        for t in range(logits.shape[2]):
            p = softmax_rows(logits[i : i + 1, :, t])[0]
            total -= sum(q * math.log(q) for q in p if q > 0)
            count += 1
    return total / max(count, 1)


def entropy_of_mean(logits, labels=None):
    """-Σ_k p̄ log p̄ of the mean p̄ of the predictions that count, for logits N×K×T; 0 if none does."""
    counted = [
        softmax_rows(logits[i : i + 1, :, t])[0]
        for i in range(logits.shape[0])
        for t in range(logits.shape[2])
        if labels is None or labels[i] < 0
    ]
    return -sum(q * math.log(q) for q in np.mean(counted, axis=0) if q > 0) if counted else 0.0


def numeric_gradient(function, array, step=1e-6):
    """Central differences of a scalar ``function()`` by every element of ``array``, which is changed and restored."""
    grad = np.zeros(array.shape)
    for index in np.ndindex(*array.shape):
        kept = array[index]
        array[index] = kept + step
        above = function()
        array[index] = kept - step
        below = function()
        array[index] = kept
        grad[index] = (above - below) / (2 * step)
    return grad


def assert_close(name, got, expected, *, rtol=0.0, atol=0.0):
    """Compare elementwise; the failure names the array, the worst index and both values. ``atol`` may be an array."""
    got, expected = np.atleast_1d(np.asarray(got, np.float64)), np.atleast_1d(np.asarray(expected, np.float64))
    assert got.shape == expected.shape, f"{name}: shape {got.shape}, expected {expected.shape}"
    excess = np.abs(got - expected) - (atol + rtol * np.abs(expected))
    excess[~np.isfinite(got) | ~np.isfinite(expected)] = np.inf
    if excess.size and excess.max() > 0:
        index = np.unravel_index(excess.argmax(), excess.shape)
        index = tuple(int(i) for i in index)
        raise AssertionError(
            f"{name}{list(index)}: got {got[index]!r}, expected {expected[index]!r} "
            f"(rtol {rtol:g}, atol {np.max(atol):g}, {int((excess > 0).sum())} of {excess.size} differ)"
        )
