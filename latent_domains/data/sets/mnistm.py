"""MNIST-M: MNIST's digits blended with patches of photographs.

Source: Ganin and Lempitsky, "Unsupervised Domain Adaptation by Backpropagation" (ICML 2015), section 4: each pixel is
|patch − digit|, the patch cut at random from a photograph of BSDS500.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def blend(digits: NDArray[np.uint8], patches: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return |patch − digit| (n×H×W×3) of gray digits (n×H×W) and colour patches (n×H×W×3), all uint8."""
    difference = patches.astype(np.int16) - digits[..., np.newaxis].astype(np.int16)
    return np.abs(difference).astype(np.uint8)


def random_patches(
    photographs: Sequence[NDArray[np.uint8]], n: int, side: int, rng: np.random.Generator
) -> NDArray[np.uint8]:
    """Cut ``n`` patches (n×side×side×3): a photograph at random, then a place in it at random, both uniform.

    ``photographs`` are H×W×3, each at least side×side.
    """
    which = rng.integers(len(photographs), size=n)
    room = np.array([photo.shape[:2] for photo in photographs])[which] - side + 1
    tops, lefts = rng.integers(room).T
    patches = np.empty((n, side, side, 3), np.uint8)
    for i, (photo, top, left) in enumerate(zip(which, tops, lefts, strict=True)):
        patches[i] = photographs[photo][top : top + side, left : left + side]
    return patches
