"""Caffe layers that discover latent domains and align them; a prototxt names them by ``module: "caffe_layers"``."""

from caffe_layers.domain_assignment import DomainAssignmentLayer
from caffe_layers.entropy_loss import EntropyLossLayer
from caffe_layers.mda import MDALayer

__all__ = ["DomainAssignmentLayer", "EntropyLossLayer", "MDALayer"]
