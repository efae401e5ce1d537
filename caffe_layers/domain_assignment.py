"""The rows w_i of the mDA layers for one group of samples (paper section 3.3)."""

from typing import Any

import caffe

from caffe_layers import _bottoms, _param_str
from caffe_layers._backend import Backend
from caffe_layers._cpu_softmax import CpuAssignment
from caffe_layers._gpu_softmax import GpuAssignment

_KEYS = {"num_domains": _param_str.num_domains(), "first": _param_str.integer(0, 0)}
_ROLE = "DomainAssignmentLayer"


def parameters(param_str: str, role: str = _ROLE) -> dict[str, Any]:
    """Return the values of a DomainAssignmentLayer's ``param_str``, as :func:`caffe_layers.mda.parameters` does."""
    return _param_str.parse(role, param_str, _KEYS)


class DomainAssignmentLayer(caffe.Layer):
    """Turns a group's domain logits into rows of w: softmax over its own domains, zero elsewhere.

    A batch is groups of rows (sources, then targets). Each group of k_g domains has one such layer; Concat joins
    their tops. A group of one domain needs logits too, whose values do not matter.

    Bottoms: logits (n×k_g); optionally labels (n), each sample's domain within the group. For a label from 0 to
    k_g - 1 the row of w is one-hot and gives no gradient; for -1, unknown, it is the softmax.
    Top: w (n×D).

    ``param_str`` (JSON):
        num_domains  D, all source and target domains
        first        the column of this group's first domain, 0

    Example::

        layer {
          name: "w_source"  type: "Python"  bottom: "domain_logits"  bottom: "domain_label"  top: "w_source"
          python_param {
            module: "caffe_layers"  layer: "DomainAssignmentLayer"  param_str: '{"num_domains": 3, "first": 0}'
          }
        }

    Raises ValueError, in ``setup``, for a wrong ``param_str`` or number of blobs; in ``reshape``, for wrong shapes
    and columns that do not fit into D; in ``forward``, for labels out of range. (Nothing waits for a GPU: there w is
    NaN, and a later ``forward`` raises the error.) Raises RuntimeError in GPU mode without CuPy.
    """

    def setup(self, bottom, top) -> None:
        """Read ``param_str``."""
        self._role = _bottoms.role(_ROLE, self)
        _bottoms.check_counts(self._role, bottom, top, "logits, or logits and labels")
        values = parameters(self.param_str, self._role)
        self._domains = values["num_domains"]
        self._first = values["first"]
        self._shape = None
        self._backend = Backend()

    def reshape(self, bottom, top) -> None:
        """Check shapes; on a new one, shape the top and make every buffer."""
        shape = _bottoms.shape(bottom[0])
        if len(bottom) == 2:
            _bottoms.check_labels_shape(self._role, _bottoms.shape(bottom[1]), shape[0])
        if shape == self._shape:
            return
        _bottoms.check_axes(self._role, "logits", shape, "n×k")
        rows, group = shape[:2]
        _bottoms.check_matrix(self._role, "logits", shape, rows, group, "k")
        if self._first + group > self._domains:
            raise ValueError(
                f"{self._role}: {group} columns of logits from first {self._first} end at {self._first + group}; "
                f"expected at most num_domains {self._domains}"
            )
        top[0].reshape(rows, self._domains)
        matrix, first, domains = (rows, group), self._first, self._domains
        self._backend.make(
            lambda: CpuAssignment(matrix, first),
            lambda device, fault: GpuAssignment(device, fault, matrix, first, domains),
        )
        self._shape = shape

    def forward(self, bottom, top) -> None:
        """Write w."""
        self._backend.forward(self._role, bottom, top)

    def backward(self, top, propagate_down, bottom) -> None:
        """Write the gradients that ``propagate_down`` asks for; labels have none."""
        if propagate_down[0]:
            self._backend.backward(self._role, top, bottom)
        if len(bottom) == 2 and propagate_down[1]:
            bottom[1].diff.fill(0)
