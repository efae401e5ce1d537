"""Checks of what a layer is given, each a ValueError that names the layer, what it got and what it expected."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Far looser than rounding, so that a finite difference may step beside the simplex; logits do not pass.
SLACK = 0.05


def shape(blob: Any) -> tuple[int, ...]:
    """A blob's shape; by index, four times as fast as pycaffe's iterator, and Caffe reshapes before every forward."""
    axes = blob.shape
    return tuple(axes[axis] for axis in range(len(axes)))


def check_counts(role: str, bottom: Sequence, top: Sequence, names: str, *, minimum: int, maximum: int) -> None:
    """Raise unless there are ``minimum`` to ``maximum`` bottoms (``names`` in words) and one top."""
    if not minimum <= len(bottom) <= maximum:
        raise ValueError(f"{role}: got {len(bottom)} bottoms; expected {names}")
    if len(top) != 1:
        raise ValueError(f"{role}: got {len(top)} tops; expected 1")


def check_axes(role: str, name: str, shape: tuple[int, ...], minimum: int, expected: str) -> None:
    """Raise unless ``shape`` has at least ``minimum`` axes and no empty one."""
    if len(shape) < minimum or 0 in shape:
        raise ValueError(f"{role}: {name} has shape {shape}; expected {expected}, no axis empty")


def check_matrix(role: str, name: str, shape: tuple[int, ...], rows: int, columns: int, columns_name: str) -> None:
    """Raise unless ``shape`` is rows×columns, any further axes being 1."""
    if shape[:2] != (rows, columns) or set(shape[2:]) - {1}:
        raise ValueError(
            f"{role}: {name} has shape {shape}; expected ({rows}, {columns}): a row per sample, {columns_name} columns"
        )


def check_labels_shape(role: str, shape: tuple[int, ...], rows: int) -> None:
    """Raise unless ``shape`` is that of ``rows`` labels, any further axes being 1."""
    if shape[:1] != (rows,) or set(shape[1:]) - {1}:
        raise ValueError(f"{role}: labels have shape {shape}; expected ({rows},): one per row of logits")


def labels(role: str, values: NDArray, limit: int | None) -> NDArray[np.int64]:
    """Integer labels from a blob's float ones. Raise unless each is -1 or 0 to ``limit`` - 1 (None: no limit)."""
    wrong = ~((values >= -1) & (values == np.floor(values)) & (values < (np.inf if limit is None else limit)))
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(wrong_label(role, row, values[row], limit))
    return values.astype(np.int64)


def wrong_label(role: str, row: int, value: float, limit: int | None) -> str:
    """The message for a label that is not -1 or 0 to ``limit`` - 1 (None: no limit)."""
    top = "0, 1, 2, …" if limit is None else f"0 to {limit - 1}"
    return f"{role}: label {row} is {value:g}; expected {top}, or -1 for unknown"


def probabilities(role: str, name: str, rows: NDArray) -> NDArray:
    """Return ``rows`` (N×D). Raise unless every row is finite, not negative and sums to 1 (within 0.05)."""
    sums = rows @ np.ones(rows.shape[1], rows.dtype)  # a product: NumPy is slow at sums over short axes
    # Written so that NaN fails.
    if rows.min() >= -SLACK and np.abs(sums - 1).max() <= SLACK:
        return rows
    row = int((~((np.abs(sums - 1) <= SLACK) & (rows.min(axis=1) >= -SLACK))).argmax())
    values = np.array2string(rows[row], precision=4, threshold=12)
    raise ValueError(not_probabilities(role, f"row {row} of {name} is {values}, which sums to {sums[row]:g}"))


def not_probabilities(role: str, found: str) -> str:
    """The message for a row that is no probabilities."""
    return f"{role}: {found}; expected probabilities that sum to 1"


def in_place(role: str) -> str:
    """The message for a layer whose top is its bottom."""
    return f"{role}: top and bottom are one blob; expected a top of its own (not in place)"
