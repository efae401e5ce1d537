"""Caffe layers that discover latent domains and align them; a prototxt names them by ``module: "caffe_layers"``.

A layer is imported when it is first asked for, so that the mathematics can be used where there is no Caffe.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from caffe_layers.domain_assignment import DomainAssignmentLayer
    from caffe_layers.entropy_loss import EntropyLossLayer
    from caffe_layers.mda import MDALayer

__all__ = ["DomainAssignmentLayer", "EntropyLossLayer", "MDALayer"]

_MODULES = {
    "DomainAssignmentLayer": "domain_assignment",
    "EntropyLossLayer": "entropy_loss",
    "MDALayer": "mda",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
