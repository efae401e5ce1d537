"""What a kernel finds wrong with a blob's values. The host looks at it before a later step, and never waits."""

from collections.abc import Callable

import numpy as np

from caffe_layers._device import Array, Device


class Fault:
    """One word that a kernel may fill: a row + 1 in the upper half, a float32 in the lower."""

    def __init__(self, device: Device) -> None:
        self.argument: Array
        with device.active():
            self.argument, self._word = device.fault()

    def check(self, describe: Callable[[int, float], str]) -> None:
        """Raise ValueError with ``describe(row, value)`` if an earlier step left a fault; once for each."""
        word = int(self._word[0])
        if word == 0:
            return
        self._word[0] = 0
        value = float(np.uint32(word & 0xFFFFFFFF).view(np.float32))
        raise ValueError(f"{describe((word >> 32) - 1, value)} (found on the GPU in an earlier step)")
