"""What a layer's CPU and GPU implementations share.

The choice between the two, the sizes of a batch, and the wrong values that a GPU reports.
"""

from collections.abc import Callable
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from caffe_layers._device import Array, Device


class Geometry(NamedTuple):
    """The sizes of a batch: N, C and S of x (S: the product of the axes after C), and D."""

    samples: int
    channels: int
    size: int
    domains: int

    @property
    def volume(self) -> tuple[int, int, int]:
        """x's shape as the implementations see it, N×C×S."""
        return self[:3]


class Backend:
    """A layer's implementation, on the CPU or on a GPU.

    Each new shape makes a new one. A wrong value that a GPU has reported is kept until it is read.
    """

    def __init__(self) -> None:
        self._faults: dict[Device, Fault] = {}

    def make(self, on_cpu: Callable[[], Any], on_gpu: "Callable[[Device, Fault], Any]") -> None:
        """Make the implementation for a new shape: with ``on_gpu`` if Caffe computes on a GPU, else with ``on_cpu``."""
        self._make = on_cpu, on_gpu
        self._choose(current())

    def forward(self, *arguments: Any) -> None:
        """Run the implementation's forward; make another one first if Caffe has changed between CPU and GPU."""
        device = current()
        if device is not self._device:
            self._choose(device)
        self.last.forward(*arguments)
        self._forwarded = True

    def backward(self, role: str, *arguments: Any) -> None:
        """Run the backward of the implementation that ran forward. Raises RuntimeError if none did."""
        if not self._forwarded:
            raise RuntimeError(f"{role}: backward before any forward of this shape; expected forward first")
        self.last.backward(*arguments)

    def _choose(self, device: "Device | None") -> None:
        on_cpu, on_gpu = self._make
        self._device, self._forwarded = device, False
        if device is None:
            self.last = on_cpu()
            return
        if device not in self._faults:
            self._faults[device] = Fault(device)
        self.last = on_gpu(device, self._faults[device])


def current() -> "Device | None":
    """Return the device that Caffe computes on, None for the CPU.

    Raises RuntimeError in GPU mode if CuPy cannot be used.
    """
    import caffe  # not above: the mathematics works in this module's arrays, and also runs where there is no Caffe

    # A Caffe without this function is not our build: its blobs are read on the host, as Caffe's own Python layers do.
    if getattr(caffe, "get_mode", lambda: "CPU")() == "CPU":
        return None
    from caffe_layers import _device

    return _device.gpu()


class Place(IntEnum):
    """Where a kernel finds something wrong (common.cuh): a row of labels or of w, a column of w, a channel of x."""

    ROW = 1
    COLUMN = 2
    CHANNEL = 3


class Fault:
    """A 64-bit word in which a kernel reports a bad input: kind and index in the upper half, the value below (float32).

    The host does not wait for it. A later step reads the word at its beginning; its batch may have another shape.
    """

    def __init__(self, device: "Device") -> None:
        self.argument: Array
        with device.active():
            self.argument, self._word = device.fault()

    def check(self, describe: Callable[[Place, int, float], str]) -> None:
        """Raise ValueError with ``describe(place, number, value)`` if an earlier step left a fault: once for each."""
        word = int(self._word[0])
        if word == 0:
            return
        self._word[0] = 0
        value = float(np.uint32(word & 0xFFFFFFFF).view(np.float32))
        said = describe(Place(word >> 62), (word >> 32) & ((1 << 30) - 1), value)
        raise ValueError(f"{said} (found on the GPU in an earlier step)")
