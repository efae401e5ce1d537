"""Compare two nets on the same inputs: noise, and images if there are some."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from caffe.proto.caffe_pb2 import LayerParameter, NetParameter
from numpy.typing import NDArray

from latent_domains.common.program import ProgramError
from latent_domains.common.wording import by
from latent_domains.data.image_datum import Format, read_image
from latent_domains.data.image_list import find_files
from latent_domains.data.preprocessing import Transform

TOLERANCE = 1e-4
"""The allowed difference of a converter's result, relative to the largest value of the blob."""

SQUASHING = ("Softmax", "Sigmoid", "TanH")
"""Layers whose outputs are at most 1, however large their inputs are."""

_MOST_ROOM = 100.0
"""The allowed difference of such outputs grows at most by this factor: beyond it scores are wrong, not only rounded."""


@dataclass(frozen=True)
class Difference:
    """How far a blob is from its expected values."""

    name: str
    relative: float
    """The largest difference of a value, relative to the largest expected value.

    Infinite if a value is not finite, or if all expected values are 0 but not all found ones.
    """


def difference(name: str, expected: NDArray[np.floating], found: NDArray[np.floating]) -> Difference:
    """Compare two arrays. Refuses arrays of different shapes."""
    if expected.shape != found.shape:
        raise ProgramError(f"{name}: found {by(found.shape)} values, expected {by(expected.shape)}")
    expected, found = expected.astype(np.float64), found.astype(np.float64)
    if not (np.isfinite(expected).all() and np.isfinite(found).all()):
        return Difference(name, np.inf)
    largest = np.abs(found - expected).max(initial=0)
    scale = np.abs(expected).max(initial=0)
    return Difference(name, float(largest / scale) if scale else (np.inf if largest else 0.0))


def makers(net: NetParameter) -> dict[str, LayerParameter]:
    """Find the SQUASHING and ArgMax layers whose bottoms still exist after a forward pass, by the blobs they make."""
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
    """Compare the blobs ``found`` with those ``expected``, by name.

    For blobs ``made_by`` certain layers (:func:`makers`) it also reads the layer's input. The rounding of a large input
    becomes a difference of the same absolute size after a SQUASHING layer: it is divided by the size over 10, up to
    _MOST_ROOM. The indices from an ArgMax are compared by their scores, since two scores may be equal except for
    rounding.
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
    """Return the difference between the ``scores`` at the indices that an ArgMax found and at the expected indices."""
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
    """Return the blob with the largest difference."""
    return max(rows, key=lambda row: row.relative)


def keep_worst(rows: dict[str, Difference], others: Iterable[Difference]) -> None:
    """Replace the rows for which ``others`` have a larger difference of the same name, as after another batch."""
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


AS_STORED = Transform()

NOISE = 4
"""Random inputs that every verification uses."""

AT_ONCE = 4
"""Inputs in a batch of a comparison, which keeps all blobs of both nets in memory."""

IMAGES = 64
"""Images that a verification uses at most."""


def tried(
    shape: Sequence[int], folder: Path | None, transform: Transform = AS_STORED
) -> tuple[NDArray[np.float32], str]:
    """Return inputs to compare on, and a text about them: :func:`noise` and, if there is a ``folder``, :func:`images`.

    Refuses a ``transform`` with neither one mean nor one for each channel.
    """
    if len(transform.mean) not in (0, 1, shape[0]):
        raise ProgramError(f"--mean: got {len(transform.mean)} values for an input of {shape[0]} channels")
    rows = noise(shape, 0, transform)
    words = f"{len(rows)} random inputs"
    if folder is None:
        return rows, words
    pictures = images(folder, shape, transform)
    return np.concatenate([rows, pictures]), f"{words} and {len(pictures)} images"


def noise(shape: Sequence[int], seed: int, transform: Transform = AS_STORED) -> NDArray[np.float32]:
    """Return NOISE inputs (NOISE×C×H×W, or NOISE×C) of random pixels 0 to 255, transformed."""
    return transform(np.random.default_rng(seed).integers(0, 256, (NOISE, *shape)).astype(np.float32))


def images(folder: Path, shape: Sequence[int], transform: Transform = AS_STORED) -> NDArray[np.float32]:
    """Return up to IMAGES images of a folder, at any depth, evenly spread over their sorted names.

    They are n×C×H×W: B, G, R (or gray), resized to the net's input, transformed.
    """
    if len(shape) != 3 or shape[0] not in (1, 3):
        raise ProgramError(f"--images: the net's input is {by(shape)}, expected an image of 1 or 3 channels")
    if not folder.is_dir():
        raise ProgramError(f"--images {folder}: no such folder")
    files = [folder / name for name in find_files(folder).images]
    if not files:
        raise ProgramError(f"--images {folder}: no images in it")
    chosen = [files[i] for i in np.unique(np.linspace(0, len(files) - 1, min(len(files), IMAGES)).round().astype(int))]
    pixels = np.empty((len(chosen), *shape), np.float32)
    for row, file in zip(pixels, chosen, strict=True):
        made = read_image(file, Format(resize=(shape[1], shape[2]), gray=shape[0] == 1))
        if made.failure:
            raise ProgramError(f"{file}: {made.failure}")
        row[...] = made.planes
    return transform(pixels)


def in_words(shape: Sequence[int], transform: Transform, mean_file: str = "") -> str:
    """Describe, in a line for a prototxt, what input its net needs. ``mean_file`` has a mean for every pixel."""
    less = ", ".join(f"{value:g}" for value in transform.mean) or mean_file
    pixels = f", pixels{' (B, G, R)' if shape[0] == 3 else ''} minus {less}" if less else ""
    return f"Input: N×{by(shape)}{pixels}{f', times {transform.scale:g}' if transform.scale != 1 else ''}."


def in_batches(inputs: NDArray[np.float32]) -> list[NDArray[np.float32]]:
    """Return ``inputs`` in batches of AT_ONCE."""
    return [inputs[start : start + AT_ONCE] for start in range(0, len(inputs), AT_ONCE)]
