"""Caffe layers that discover latent domains and align them; a prototxt names them by ``module: "caffe_layers"``.

Which file to open, in the order in which x goes through ``MDALayer.forward`` on the CPU:

    mda.py                     the layer as Caffe sees it: parameters, blobs, shapes
    _backend.py                CPU or GPU? also a batch's sizes
    _cpu_mda.py                what the CPU does, step by step, in the paper's symbols; _scratch.py: arrays for it
    _domain_kernels.py         its loops over w and the domain statistics
    _row_kernels.py            its loops over x, for rows of several values; _column_kernels.py: of one
    _formulas.py               the formulas, once for CPU and GPU

The method's other two layers are domain_assignment.py and entropy_loss.py, with _cpu_softmax.py; permutation.py is for
a control. On a GPU _gpu_mda.py and _gpu_softmax.py start the kernels of mda.cu and softmax.cu, by _device.py (CuPy) and
_cuda_source.py. Every layer checks param_str by _param_str.py, bottoms by _bottoms.py; _kernel_cache.py keeps the CPU's
machine code on disk.

A layer is imported when it is first asked for, so that the mathematics can be used where there is no Caffe.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from caffe_layers.domain_assignment import DomainAssignmentLayer
    from caffe_layers.entropy_loss import EntropyLossLayer
    from caffe_layers.mda import MDALayer
    from caffe_layers.permutation import PermutationLayer

__all__ = ["DomainAssignmentLayer", "EntropyLossLayer", "MDALayer", "PermutationLayer"]

_MODULES = {
    "DomainAssignmentLayer": "domain_assignment",
    "EntropyLossLayer": "entropy_loss",
    "MDALayer": "mda",
    "PermutationLayer": "permutation",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
