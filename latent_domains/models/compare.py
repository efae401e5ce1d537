"""How far two nets are apart on the same inputs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from caffe.proto.caffe_pb2 import LayerParameter, NetParameter
from numpy.typing import NDArray

from latent_domains.common.program import ProgramError
from latent_domains.common.wording import by

TOLERANCE = 1e-4
"""The difference that a converter's result may have, as a part of the largest value of the blob."""

SQUASHING = ("Softmax", "Sigmoid", "TanH")
"""Layers whose outputs are at most 1, however large their inputs are."""

_MOST_ROOM = 100.0
"""The allowed difference of such outputs grows by this factor at most: beyond it scores are wrong, not only rounded."""


@dataclass(frozen=True)
class Difference:
    """How far a blob is from what it should be."""

    name: str
    relative: float
    """The largest difference of a value, as a part of the largest expected value.

    Infinite if a value is not finite, or if all expected values are 0 and not all found ones are.
    """


def difference(name: str, expected: NDArray[np.floating], found: NDArray[np.floating]) -> Difference:
    """Compare two arrays. Raises ProgramError if their shapes differ."""
    if expected.shape != found.shape:
        raise ProgramError(f"{name}: found {by(found.shape)} values, expected {by(expected.shape)}")
    expected, found = expected.astype(np.float64), found.astype(np.float64)
    if not (np.isfinite(expected).all() and np.isfinite(found).all()):
        return Difference(name, np.inf)
    largest = np.abs(found - expected).max(initial=0)
    scale = np.abs(expected).max(initial=0)
    return Difference(name, float(largest / scale) if scale else (np.inf if largest else 0.0))


def makers(net: NetParameter) -> dict[str, LayerParameter]:
    """Find the SQUASHING and ArgMax layers whose bottoms are still there after a forward, by the blobs they make."""
    found: dict[str, LayerParameter] = {}
    for layer in net.layer:
        found = {top: maker for top, maker in found.items() if not {top, *maker.bottom} & set(layer.top)}
        if layer.type in (*SQUASHING, "ArgMax") and layer.bottom[0] != layer.top[0]:
            found[layer.top[0]] = layer
    return found


def differences(
    expected: Mapping[str, NDArray[np.floating]],
    found: Mapping[str, NDArray[np.floating]],
    made_by: Mapping[str, LayerParameter] | None = None,
) -> list[Difference]:
    """Compare the blobs ``found`` with those ``expected`` by the same names.

    For blobs ``made_by`` certain layers (:func:`makers`) it also looks at what that layer read. The rounding of a large
    input becomes a difference of the same absolute size behind a SQUASHING layer: it is divided by the size over 10, up
    to _MOST_ROOM.
    The places that an ArgMax finds are compared by their scores, as two scores may be equal but for rounding.
    """
    rows = []
    for name, values in found.items():
        row = difference(name, expected[name], values)
        if made_by and (maker := made_by.get(name)):
            read = expected[maker.bottom[0]]
            if maker.type in SQUASHING:
                room = max(1.0, float(np.abs(read).max(initial=0)) / 10)  # 1 if the input is not a number
                row = replace(row, relative=row.relative / min(room, _MOST_ROOM))
            elif not (maker.argmax_param.out_max_val and maker.argmax_param.HasField("axis")):
                row = replace(row, relative=_by_scores(maker, read, expected[name], values))
        rows.append(row)
    return rows


def _by_scores(
    maker: LayerParameter,
    scores: NDArray[np.floating],
    expected: NDArray[np.floating],
    found: NDArray[np.floating],
) -> float:
    """How far the ``scores`` at the places that an ArgMax found are from those at the expected places."""
    axis, rest = maker.argmax_param.axis, 0.0
    if not maker.argmax_param.HasField("axis"):  # N×1×k of all values of an image, or N×2×k, with the scores
        rest = difference("", expected[:, 1:], found[:, 1:]).relative
        scores, expected, found = (values.reshape(len(values), -1) for values in (scores, expected[:, 0], found[:, 0]))
        axis = 1
    if not np.isin(found, np.arange(scores.shape[axis])).all():
        return np.inf
    wanted, there = (np.take_along_axis(scores, places.astype(np.int64), axis) for places in (expected, found))
    largest = np.abs(scores).max(initial=0)
    return max(rest, float(np.abs(there - wanted).max(initial=0) / largest) if largest else 0.0)


def worst(rows: Sequence[Difference]) -> Difference:
    """The blob with the largest difference."""
    return max(rows, key=lambda row: row.relative)


def keep_worst(rows: dict[str, Difference], others: Iterable[Difference]) -> None:
    """Replace the rows for which ``others`` have a larger difference under the same name, as after another batch."""
    for row in others:
        rows[row.name] = worst([rows.get(row.name, row), row])


def require(file: Path, rows: Sequence[Difference], tolerance: float = TOLERANCE, hint: str = "") -> None:
    """Raise ProgramError naming the model's ``file``, with the ``hint``, if a difference is above ``tolerance``."""
    furthest = worst(rows)
    if not furthest.relative <= tolerance:
        width = max(len(row.name) for row in rows)
        table = "\n".join(f"  {row.name:{width}}  {row.relative:.1e}" for row in rows)
        raise ProgramError(
            f"{file}: the two sides differ by {furthest.relative:.1e} of the largest value in {furthest.name}, "
            f"expected at most {tolerance:g}{hint}; nothing is written\n{table}"
        )
