"""Inputs to try a net on: noise, and images where there are some."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from latent_domains.common.program import ProgramError
from latent_domains.common.wording import by
from latent_domains.data.image_datum import Format, read_image
from latent_domains.data.image_list import find_files

NOISE = 4
"""Random inputs that every verification uses."""

AT_ONCE = 4
"""Inputs in a batch of a comparison, which keeps every blob of both nets in memory."""

IMAGES = 64
"""Images that a verification uses at most."""


def tried(
    shape: Sequence[int], folder: Path | None, mean: Sequence[float] = (), scale: float = 1.0
) -> tuple[NDArray[np.float32], str]:
    """Inputs to compare on, and words for them: :func:`noise` and, if a ``folder`` is given, its :func:`images`.

    Raises ProgramError if ``mean`` is neither one number nor one for each channel, or as :func:`images` does.
    """
    if len(mean) not in (0, 1, shape[0]):
        raise ProgramError(f"--mean: got {len(mean)} values for an input of {shape[0]} channels")
    rows = noise(shape, 0, mean, scale)
    words = f"{len(rows)} random inputs"
    if folder is None:
        return rows, words
    pictures = images(folder, shape, mean, scale)
    return np.concatenate([rows, pictures]), f"{words} and {len(pictures)} images"


def noise(shape: Sequence[int], seed: int, mean: Sequence[float] = (), scale: float = 1.0) -> NDArray[np.float32]:
    """NOISE inputs (NOISE×C×H×W, or NOISE×C) of random pixels 0 to 255, as (value - mean) * scale."""
    pixels = np.random.default_rng(seed).integers(0, 256, (NOISE, *shape)).astype(np.float32)
    return _transformed(pixels, mean, scale)


def images(folder: Path, shape: Sequence[int], mean: Sequence[float] = (), scale: float = 1.0) -> NDArray[np.float32]:
    """Up to IMAGES images of a folder, at any depth, evenly spread over their sorted names.

    Returns n×C×H×W: B, G, R (or gray), resized to the net's input, as (value - mean) * scale. Raises
    ProgramError if there are none or one cannot be read.
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
    return _transformed(pixels, mean, scale)


def in_words(shape: Sequence[int], mean: Sequence[float], scale: float, mean_file: str = "") -> str:
    """A line for a prototxt that says what input its net needs. ``mean_file`` has a mean for every pixel."""
    less = ", ".join(f"{value:g}" for value in mean) or mean_file
    pixels = f", pixels{' (B, G, R)' if shape[0] == 3 else ''} minus {less}" if less else ""
    return f"Input: N×{by(shape)}{pixels}{f', times {scale:g}' if scale != 1 else ''}."


def in_batches(inputs: NDArray[np.float32]) -> list[NDArray[np.float32]]:
    """``inputs``, AT_ONCE in a batch."""
    return [inputs[start : start + AT_ONCE] for start in range(0, len(inputs), AT_ONCE)]


def _transformed(pixels: NDArray[np.float32], mean: Sequence[float], scale: float) -> NDArray[np.float32]:
    means = np.array(mean or (0,), np.float32).reshape(-1, *[1] * (pixels.ndim - 2))
    return (pixels - means) * np.float32(scale)
