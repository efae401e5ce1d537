"""The proof that a folded net does what the net did that it was made of."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import caffe
import cv2
import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from tools.bench.timing import compare as compare_times
from tools.convert.compare import TOLERANCE, Difference, differences, worst
from tools.convert.model import forward

Array = NDArray[np.float32]

AT_ONCE = 4
"""Inputs in a batch: every blob of both nets is kept for them."""

SECONDS = 2.0
"""What the times of both nets are measured for, if seven passes of each do not take longer."""


@dataclass(frozen=True)
class Agreement:
    """How OpenCV's results compare with those of the net that was folded."""

    same: int
    """Inputs with the same best class."""
    inputs: int
    furthest: Difference
    """The largest difference over the blobs."""


def compare_nets(
    original: caffe.Net, folded: caffe.Net, pairs: Mapping[str, str], inputs: Array, kept: Iterable[str]
) -> tuple[list[Difference], dict[str, Array]]:
    """The largest difference of each blob of ``pairs`` over ``inputs``; and the original's blobs ``kept``.

    ``pairs``: names of blobs of both nets that should hold the same.
    """
    rows: dict[str, Difference] = {}
    outputs: dict[str, list[Array]] = {name: [] for name in kept}
    with tqdm(desc="compared with the net that was read", total=len(inputs), unit="input") as bar:
        for start in range(0, len(inputs), AT_ONCE):
            batch = inputs[start : start + AT_ONCE]
            expected, found = forward(original, batch), forward(folded, batch)
            both = {name: expected[name] for name in pairs}
            for row in differences(both, {name: found[pairs[name]] for name in pairs}):
                rows[row.name] = worst([rows.get(row.name, row), row])
            for name, values in outputs.items():
                values.append(expected[name])
            bar.update(len(batch))
    return list(rows.values()), {name: np.concatenate(values) for name, values in outputs.items()}


def compare_opencv(
    net: Path, weights: Path, layers: Mapping[str, str], inputs: Array, expected: Mapping[str, Array]
) -> Agreement:
    """Load a model into OpenCV and compare what it makes with the ``expected`` blobs.

    ``layers`` is the layer that makes each blob. A best class (along axis 1) is the same, too, where two are even to
    within TOLERANCE. Raises cv2.error if OpenCV cannot read or run the model.
    """
    loaded = cv2.dnn.readNetFromCaffe(str(net), str(weights))
    rows: list[Difference] = []
    same = np.ones(len(inputs), bool)
    with tqdm(desc="compared with OpenCV", total=len(inputs), unit="input") as bar:
        for start in range(0, len(inputs), AT_ONCE):
            batch = slice(start, min(start + AT_ONCE, len(inputs)))
            loaded.setInput(inputs[batch])
            for blob, found in zip(layers, loaded.forward(list(layers.values())), strict=True):
                wanted = expected[blob][batch]
                rows += differences({blob: wanted}, {blob: found.reshape(wanted.shape)})
                same[batch] &= same_best(wanted, found.reshape(wanted.shape))
            bar.update(batch.stop - start)
    return Agreement(int(same.sum()), len(inputs), worst(rows))


def same_best(expected: Array, found: Array) -> NDArray[np.bool_]:
    """Whether, for each row, the largest of ``found`` along axis 1 is the largest of ``expected``, within TOLERANCE."""
    chosen = np.take_along_axis(expected, found.argmax(axis=1, keepdims=True), axis=1)
    largest = expected.max(axis=1, keepdims=True)
    return (chosen >= largest - TOLERANCE * np.abs(largest)).reshape(len(expected), -1).all(axis=1)


def speed_up(original: caffe.Net, folded: caffe.Net, inputs: Array) -> float:
    """How many times faster ``folded`` runs than ``original`` on ``inputs``: the median of passes taken in turns."""

    def passes(net: caffe.Net) -> Callable[[], object]:
        forward(net, inputs)
        return net.forward

    return compare_times(passes(original), passes(folded), SECONDS).ratio
