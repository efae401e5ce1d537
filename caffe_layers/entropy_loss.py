"""The entropy losses h_C and h_D (paper section 3.4), and the entropy of the mean prediction."""

import math

import caffe

from caffe_layers import _bottoms, _param_str
from caffe_layers._backend import Backend
from caffe_layers._cpu_softmax import CpuEntropy, CpuMeanEntropy
from caffe_layers._gpu_softmax import GpuEntropy, GpuMeanEntropy

_ROLE = "EntropyLossLayer"

_KEYS = {"of_mean": _param_str.boolean(False)}


class EntropyLossLayer(caffe.Layer):
    """Mean entropy of softmax predictions: -(1/n) Σ_i Σ_k p_ik log p_ik.

    With ``of_mean`` it is the entropy of their mean: -Σ_k p̄_k log p̄_k, p̄_k = (1/n) Σ_i p_ik. With a negative weight
    it rewards predictions of all classes (information maximisation: Krause, Perona and Gomes 2010, Eq. 3; Liang, Hu and
    Feng 2020, Eq. 3), and so assumes that the classes are about equally frequent.

    Bottoms: logits (N×K, or N×K×… with one prediction at each trailing position), optionally labels (N): a sample
    whose label is known (>= 0) does not count, one with -1 does.
    Top: the loss, a scalar. n is the number of predictions that count, at least 1. Its weight is the layer's
    ``loss_weight`` (λ_C, λ_D), which has to be set: Caffe's default for this type is 0. ``param_str`` (JSON) may have
    ``of_mean``, false by default.

    Example::

        layer {
          name: "entropy"  type: "Python"  bottom: "target_scores"  top: "entropy"  loss_weight: 0.1
          python_param { module: "caffe_layers"  layer: "EntropyLossLayer" }
        }

    Raises ValueError, in ``setup``, for a ``param_str`` or a wrong number of blobs; in ``reshape``, for wrong
    shapes; in ``forward``, for labels that are not -1, 0, 1, … (Nothing waits for a GPU: there the loss is NaN, and a
    later ``forward`` raises the error.) Raises RuntimeError in GPU mode without CuPy.
    """

    def setup(self, bottom, top) -> None:
        """Read the parameters."""
        self._role = _bottoms.role(_ROLE, self)
        _bottoms.check_counts(self._role, bottom, top, "logits, or logits and labels")
        self._of_mean = _param_str.parse(self._role, self.param_str, _KEYS)["of_mean"]
        self._shape = None
        self._backend = Backend()

    def reshape(self, bottom, top) -> None:
        """Check shapes; on a new one, shape the top and make every buffer."""
        shape = _bottoms.shape(bottom[0])
        if len(bottom) == 2:
            _bottoms.check_labels_shape(self._role, _bottoms.shape(bottom[1]), shape[0])
        if shape == self._shape:
            return
        _bottoms.check_axes(self._role, "logits", shape, "N×K or N×K×…")
        top[0].reshape()
        volume = shape[0], shape[1], math.prod(shape[2:])
        cpu, gpu = (CpuMeanEntropy, GpuMeanEntropy) if self._of_mean else (CpuEntropy, GpuEntropy)
        self._backend.make(lambda: cpu(volume), lambda device, fault: gpu(device, fault, volume))
        self._shape = shape

    def forward(self, bottom, top) -> None:
        """Write the loss."""
        self._backend.forward(self._role, bottom, top)

    def backward(self, top, propagate_down, bottom) -> None:
        """Write the gradients that ``propagate_down`` asks for; labels have none."""
        if propagate_down[0]:
            self._backend.backward(self._role, top, bottom)
        if len(bottom) == 2 and propagate_down[1]:
            bottom[1].diff.fill(0)
