"""How far results in float32 may lie from the true ones, whichever order a processor adds in."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def rounding(terms: float, values: NDArray[np.floating] | Sequence[float] | float) -> float:
    """The most that rounding makes of sums of this many terms, of the size of the largest of ``values``.

    Each addition rounds to 24 bits, so a sum of n terms is off by at most n·2⁻²⁴ of their size. Where a layer adds what
    others added, the terms of all of them count. Orders of addition differ by far less: some √n·2⁻²⁴.
    """
    return float(terms * 2.0**-24 * np.abs(values).max())
