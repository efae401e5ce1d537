"""A few simple statistics of an image: what may set domains apart to the eye."""

import numpy as np
from numpy.typing import NDArray

EDGE = 10.0
"""Difference of two neighbouring pixels, in % of the range, from which on it counts as an edge."""


def image_statistics(image: NDArray[np.uint8]) -> dict[str, float]:
    """Statistics of an image (C×H×W; C = 3 as B, G, R, or 1; H and W at least 2), in % of the range of a pixel.

    Grey is the mean of the channels. Edges are a share of the pairs of neighbouring pixels.
    """
    values = image.astype(np.float32) * (100 / 255)
    grey = values.mean(axis=0)
    steps = np.concatenate([np.diff(grey, axis=axis).ravel() for axis in (0, 1)])
    return {
        "brightness": float(grey.mean()),
        "contrast": float(grey.std()),
        "colour": float(np.ptp(values, axis=0).mean()),
        "red less grey": float(values[-1].mean() - grey.mean()),
        "blue less grey": float(values[0].mean() - grey.mean()),
        "edges": float(100 * (np.abs(steps) >= EDGE).mean()),
    }
