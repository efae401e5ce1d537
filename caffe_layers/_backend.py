"""Which of a layer's two implementations runs: the one for where Caffe computes at the moment."""

from collections.abc import Callable
from typing import Any

from caffe_layers import _device


class Backend:
    """The implementation on the CPU, by ``on_cpu()``, or on a GPU, by ``on_gpu(device)``; made when first needed."""

    def __init__(self, blob: Any, on_cpu: Callable[[], Any], on_gpu: Callable[[_device.Device], Any]) -> None:
        self._make = on_cpu, on_gpu
        self._choose(_device.current(blob))

    def now(self, blob: Any) -> Any:
        """What a forward that reads ``blob`` uses. The mode may change between two of them."""
        device = _device.current(blob)
        if device is not self._device:
            self._choose(device)
        return self.last

    def _choose(self, device: _device.Device | None) -> None:
        on_cpu, on_gpu = self._make
        self._device = device
        self.last = on_cpu() if device is None else on_gpu(device)
