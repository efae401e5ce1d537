"""Check the shapes of a layer's blobs, and describe wrong values for CPU and GPU.

Each error is a ValueError that names the layer, what it got and what it expected.
"""

from collections.abc import Sequence
from typing import Any

# By how much a row of w may miss a sum of 1, and an entry fall below 0. Rounding and the steps of numerical gradients
# are much smaller; logits are not taken for probabilities.
SLACK = 0.05


def role(kind: str, layer: Any) -> str:
    """Return the beginning of a message: the layer's type, and its name if Caffe provides it (our build does)."""
    return f'{kind} "{layer.name}"' if hasattr(layer, "name") else kind


def shape(blob: Any) -> tuple[int, ...]:
    """Return a blob's shape.

    Each forward needs it; by index it takes a quarter of the time of pycaffe's iterator.
    """
    axes = blob.shape
    return tuple(axes[axis] for axis in range(len(axes)))


def check_counts(role: str, bottom: Sequence, top: Sequence, names: str) -> None:
    """Raise unless there are one or two bottoms (``names`` in words) and one top."""
    if len(bottom) not in (1, 2):
        raise ValueError(f"{role}: got {len(bottom)} bottoms; expected {names}")
    if len(top) != 1:
        raise ValueError(f"{role}: got {len(top)} tops; expected 1")


def check_axes(role: str, name: str, shape: tuple[int, ...], expected: str) -> None:
    """Raise unless ``shape`` has at least two axes and no empty one."""
    if len(shape) < 2 or 0 in shape:
        raise ValueError(f"{role}: {name} has shape {shape}; expected {expected}, no axis empty")


def check_matrix(role: str, name: str, shape: tuple[int, ...], rows: int, columns: int, columns_name: str) -> None:
    """Raise unless ``shape`` is rows×columns; further axes must be 1."""
    if shape[:2] != (rows, columns) or set(shape[2:]) - {1}:
        raise ValueError(
            f"{role}: {name} has shape {shape}; expected ({rows}, {columns}): a row per sample, {columns_name} columns"
        )


def check_labels_shape(role: str, shape: tuple[int, ...], rows: int) -> None:
    """Raise unless ``shape`` is that of ``rows`` labels; further axes must be 1."""
    if shape[:1] != (rows,) or set(shape[1:]) - {1}:
        raise ValueError(f"{role}: labels have shape {shape}; expected ({rows},): one per row")


def wrong_label(role: str, row: int, value: float, limit: int | None) -> str:
    """Return the message for a label that is not -1 or 0 to ``limit`` - 1 (None: no limit)."""
    top = "0, 1, 2, …" if limit is None else f"0 to {limit - 1}"
    return f"{role}: label {row} is {value:g}; expected {top}, or -1 for unknown"


def not_probabilities(role: str, found: str) -> str:
    """Return the message for a row or column of w without probabilities."""
    return f"{role}: {found}; expected probabilities that sum to 1"


def cancelled(domain: int, mass: float) -> str:
    """Return the message for a column of w whose negative entries outweigh its sum, which then means nothing."""
    return f"column {domain} of w sums to {mass:g}, less than its entries below zero take away"


def not_finite(role: str, where: str, value: float, *, kept: bool = True) -> str:
    """Return the message for an x that is not finite, which would spoil the running statistics for ever.

    ``kept``: whether these are unchanged by the batch, in all channels.
    """
    then = (
        "its running statistics are as they were before this batch"
        if kept
        else "its other channels have taken this batch in: go on from a snapshot before it"
    )
    return f"{role}: the variance of x in {where} is {value:g}; expected x to be finite ({then})"


def in_place(role: str) -> str:
    """Return the message for a layer whose top is its bottom."""
    return f"{role}: top and bottom are one blob; expected a top of its own (not in place)"
