"""MNIST's IDX files.

Source: LeCun, Cortes, Burges, "The MNIST database of handwritten digits": a big-endian header (magic, sizes), then
one byte a pixel or label.
"""

import numpy as np
from numpy.typing import NDArray


def parse(data: bytes) -> NDArray[np.uint8]:
    """Return what an unpacked IDX file of bytes holds: images (n×rows×columns, ink bright), or labels (n)."""
    dimensions = data[3]
    sizes = np.frombuffer(data, ">u4", dimensions, offset=4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * dimensions).reshape(sizes.tolist())
