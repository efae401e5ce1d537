"""Which of a layer's two implementations runs: the one for where Caffe computes at the moment."""

from collections.abc import Callable
from typing import Any

from caffe_layers import _device
from caffe_layers._fault import Fault


class Backend:
    """The implementation on the CPU or on a GPU. It is made anew for each shape; what a GPU found wrong outlives it."""

    def __init__(self) -> None:
        self._faults: dict[_device.Device, Fault] = {}

    def make(self, on_cpu: Callable[[], Any], on_gpu: Callable[[_device.Device, Fault], Any]) -> None:
        """Make the implementation, by one of the two, for a new shape."""
        self._make = on_cpu, on_gpu
        self._choose(_device.current())

    def now(self) -> Any:
        """What a forward uses. The mode may change between two of them."""
        device = _device.current()
        if device is not self._device:
            self._choose(device)
        return self.last

    def _choose(self, device: _device.Device | None) -> None:
        on_cpu, on_gpu = self._make
        self._device = device
        if device is None:
            self.last = on_cpu()
            return
        if device not in self._faults:
            self._faults[device] = Fault(device)
        self.last = on_gpu(device, self._faults[device])
