"""Compares a folded net with the original, in Caffe and in OpenCV."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import caffe
import cv2
import numpy as np
from caffe.proto.caffe_pb2 import NetParameter
from numpy.typing import NDArray
from tqdm import tqdm

from latent_domains.convert.fold.fold import Folded
from latent_domains.models.compare import TOLERANCE, Difference, differences, keep_worst, worst
from latent_domains.models.model import Array, forward


@dataclass(frozen=True)
class Agreement:
    """How OpenCV's results compare with those of the net that was folded."""

    same: int
    """Inputs with the same best class."""
    inputs: int
    furthest: Difference
    """The largest difference over the blobs."""


def batches_for(net: NetParameter, inputs: Array) -> list[Array]:
    """``inputs`` in batches of as many rows as the net's Input layer has: some nets take no others.

    The last batch is filled up with the first inputs again.
    """
    (rows,) = [layer.input_param.shape[0].dim[0] for layer in net.layer if layer.type == "Input"]
    filled = inputs[np.arange(-(-len(inputs) // rows) * rows) % len(inputs)]
    return [filled[start : start + rows] for start in range(0, len(filled), rows)]


def compare_nets(
    original: caffe.Net, written: caffe.Net, folded: Folded, batches: Sequence[Array]
) -> tuple[list[Difference], list[dict[str, Array]]]:
    """Compare the net that was folded with what was written of it.

    Returns the largest difference of each of the ``folded.pairs`` over the batches of inputs; and for each batch the
    original's blobs that are ``folded.heads`` or inputs of ``folded.softmaxes``.
    """
    kept = {*folded.heads, *folded.softmaxes.values()}
    rows: dict[str, Difference] = {}
    outputs: list[dict[str, Array]] = []
    for batch in tqdm(batches, desc="compared with the net that was read", unit="batch"):
        expected, found = forward(original, batch), forward(written, batch)
        same = {name: found[other] for name, other in folded.pairs.items()}
        keep_worst(rows, differences(expected, same, folded.softmaxes))
        outputs.append({name: expected[name] for name in kept})
    return list(rows.values()), outputs


def compare_opencv(
    net: Path,
    weights: Path,
    folded: Folded,
    batches: Sequence[Array],
    expected: Sequence[Mapping[str, Array]],
) -> Agreement:
    """Load the written model into OpenCV and compare its ``folded.heads`` with those ``expected`` for each batch.

    A best class (along axis 1) is the same, too, where two are even to within TOLERANCE. Raises cv2.error if OpenCV
    cannot read or run the model, ProgramError if a blob of its has another shape.
    """
    loaded = cv2.dnn.readNetFromCaffe(str(net), str(weights))
    rows: list[Difference] = []
    same = inputs = 0
    for batch, blobs in zip(tqdm(batches, desc="compared with OpenCV", unit="batch"), expected, strict=True):
        loaded.setInput(batch)
        agreed = np.ones(len(batch), bool)
        made = {}
        for blob, layer in folded.heads.items():
            wanted = blobs[blob]
            # By one name at a time: given a list, OpenCV's wrapper ends the process if Ctrl-C comes at that moment.
            found = loaded.forward(layer)
            if found.size == wanted.size:  # axes of 1 may be missing
                found = found.reshape(wanted.shape)
            made[blob] = found
            if wanted.ndim > 1 and found.shape == wanted.shape and len(wanted) == len(batch):
                agreed &= same_best(wanted, found)
        rows += differences(blobs, made, folded.softmaxes)
        same, inputs = same + int(agreed.sum()), inputs + len(batch)
    return Agreement(same, inputs, worst(rows))


def same_best(expected: Array, found: Array) -> NDArray[np.bool_]:
    """Whether, for each row, the largest of ``found`` along axis 1 is the largest of ``expected``, within TOLERANCE."""
    chosen = np.take_along_axis(expected, found.argmax(axis=1, keepdims=True), axis=1)
    largest = expected.max(axis=1, keepdims=True)
    return (chosen >= largest - TOLERANCE * np.abs(largest)).reshape(len(expected), -1).all(axis=1)
