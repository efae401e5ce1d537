"""Compare a folded net with the original, in Caffe and in OpenCV."""

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
    """How OpenCV's results compare with those of the original net."""

    same: int
    """Inputs with the same best class."""
    inputs: int
    """Inputs that have classes."""
    furthest: Difference
    """The largest difference over the blobs."""


def batches_for(net: NetParameter, inputs: Array) -> list[Array]:
    """Return ``inputs`` in batches of as many rows as the net's Input layer has, since some nets accept only these.

    The last batch is filled up with the first inputs again.
    """
    (rows,) = [layer.input_param.shape[0].dim[0] for layer in net.layer if layer.type == "Input"]
    filled = inputs[np.arange(-(-len(inputs) // rows) * rows) % len(inputs)]
    return [filled[start : start + rows] for start in range(0, len(filled), rows)]


def compare_nets(
    original: caffe.Net, written: caffe.Net, folded: Folded, batches: Sequence[Array]
) -> tuple[list[Difference], list[dict[str, Array]]]:
    """Compare the original net with the folded one that was written.

    Returns the largest difference of each of the ``folded.pairs`` over the batches of inputs; and for each batch the
    original's blobs that are ``folded.heads``, or read by their ``folded.makers``.
    """
    kept = {*folded.heads, *(maker.bottom[0] for head, maker in folded.makers.items() if head in folded.heads)}
    rows: dict[str, Difference] = {}
    outputs: list[dict[str, Array]] = []
    for batch in tqdm(batches, desc="compared with the net that was read", unit="batch"):
        expected, found = forward(original, batch), forward(written, batch)
        same = {name: found[other] for name, other in folded.pairs.items()}
        keep_worst(rows, differences(expected, same, folded.makers))
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

    The axis of classes is that of the softmax that makes a head or reads it; without one it is axis 1. The output of an
    ArgMax has no classes. Raises cv2.error if OpenCV cannot read or run the model.
    """
    loaded = cv2.dnn.readNetFromCaffe(str(net), str(weights))
    axes = {head: 0 for head, maker in folded.makers.items() if maker.type == "ArgMax"}
    softmaxes = [maker for maker in folded.makers.values() if maker.type == "Softmax"]
    axes |= {blob: maker.softmax_param.axis for maker in softmaxes for blob in (maker.bottom[0], maker.top[0])}
    rows: list[Difference] = []
    same = inputs = 0
    for batch, blobs in zip(tqdm(batches, desc="compared with OpenCV", unit="batch"), expected, strict=True):
        loaded.setInput(batch)
        agreed, made = [], {}
        for blob, layer in folded.heads.items():
            wanted = blobs[blob]
            # By one name at a time: given a list, OpenCV's wrapper ends the process if Ctrl-C comes at that moment.
            found = loaded.forward(layer)
            if found.size == wanted.size:  # axes of 1 may be missing
                found = found.reshape(wanted.shape)
            made[blob] = found
            axis = axes.get(blob, 1)
            if wanted.ndim > 1 and axis % wanted.ndim and found.shape == wanted.shape and len(wanted) == len(batch):
                agreed.append(same_best(wanted, found, axis))
        rows += differences(blobs, made, folded.makers)
        if agreed:
            same, inputs = same + int(np.all(agreed, axis=0).sum()), inputs + len(batch)
    return Agreement(same, inputs, worst(rows))


def same_best(expected: Array, found: Array, axis: int = 1) -> NDArray[np.bool_]:
    """Say for each row whether the largest of ``found`` along ``axis`` is everywhere the largest of ``expected``.

    Values that differ by at most TOLERANCE of the row's largest value count as equal.
    """
    chosen = np.take_along_axis(expected, found.argmax(axis, keepdims=True), axis)
    behind, sizes = (expected.max(axis, keepdims=True) - chosen), np.abs(expected)
    most, largest = (values.reshape(len(expected), -1).max(axis=1) for values in (behind, sizes))
    return most <= TOLERANCE * largest
