"""The multi-domain alignment layer (paper section 3.2, Eq. 1-3)."""

import math
from typing import Any

import caffe

from caffe_layers import _bottoms, _param_str
from caffe_layers._backend import Backend, Geometry
from caffe_layers._cpu_mda import CpuMda
from caffe_layers._gpu_mda import GpuMda

_KEYS = {
    "num_domains": _param_str.num_domains(),
    "eps": _param_str.positive(1e-5),
    "moving_average_fraction": _param_str.fraction(0.999),
    "use_global_stats": _param_str.optional_boolean(),
    "domain": _param_str.integer(0, None),
}
_ROLE = "MDALayer"


def parameters(param_str: str, role: str = _ROLE) -> dict[str, Any]:
    """Return the values of an MDALayer's ``param_str``, defaults included.

    Raises ValueError, beginning with ``role``, for a wrong one.
    """
    return _param_str.parse(role, param_str, _KEYS)


class MDALayer(caffe.Layer):
    """Normalises every sample by the statistics of the domains it belongs to: y = Σ_d w_id (x - μ_d) / √(σ²_d + ε).

    Bottoms: x (N×C×…), then w (N×D; rows of domain probabilities); or x alone, all of it from one domain.
    Top: y, of x's shape, not in place.

    ``param_str`` (JSON):
        num_domains              D, source and target domains together
        eps                      ε, 1e-5
        moving_average_fraction  what the running statistics keep at each step, 0.999
        use_global_stats         true: running statistics; false: the batch's; null (default): the batch's in the
                                 TRAIN phase and the running ones in TEST
        domain                   only with x alone: the column that every row belongs to, by default the last

    Blobs, in the convention of Caffe's BatchNorm: Σ mean (D×C), Σ unbiased variance (D×C), divisor (D). A domain
    that has no mass in a batch keeps its statistics; one that never had any normalises by mean 0, variance 0.
    The solver must leave the blobs alone::

        layer {
          name: "conv1_mda"  type: "Python"  bottom: "conv1"  bottom: "w"  top: "conv1_mda"
          python_param { module: "caffe_layers"  layer: "MDALayer"  param_str: '{"num_domains": 3}' }
          param { lr_mult: 0 decay_mult: 0 } param { lr_mult: 0 decay_mult: 0 } param { lr_mult: 0 decay_mult: 0 }
        }

    Raises ValueError, in ``setup``, for a wrong ``param_str`` or number of blobs; in ``reshape``, for wrong shapes;
    in ``forward``, for an in-place top, for rows of w that are not probabilities and for an x that is not finite where
    the batch's statistics are used: such a batch does not enter the blobs. (Nothing waits for a GPU: there a later
    ``forward`` raises the error. If x was not finite, its finite channels have then entered the blobs.) Raises
    RuntimeError in GPU mode without CuPy.
    """

    def setup(self, bottom, top) -> None:
        """Read ``param_str`` and make the blobs of the running statistics."""
        self._role = _bottoms.role(_ROLE, self)
        _bottoms.check_counts(self._role, bottom, top, "x, or x and w")
        values = parameters(self.param_str, self._role)
        domains = values["num_domains"]
        use_global = values["use_global_stats"]
        fixed = self.phase == caffe.TEST if use_global is None else use_global
        self._choices = values["eps"], values["moving_average_fraction"], fixed
        self._assigned = len(bottom) == 2
        column = values["domain"]
        if column is not None and self._assigned:
            raise ValueError(f"{self._role}: param_str domain is for x alone; got domain {column} and a bottom w")
        if column is not None and column >= domains:
            expected = f"0 to {domains - 1} (num_domains - 1)"
            raise ValueError(f"{self._role}: param_str domain is {column}; expected {expected}")
        if column is None:
            column = domains - 1
        # With x alone, only that domain takes part in any computation.
        self._first = 0 if self._assigned else column
        self._domains = domains
        self._shape = None
        self._backend = Backend()
        shape = _bottoms.shape(bottom[0])
        _bottoms.check_axes(self._role, "x", shape, "N×C×…")
        self._make_blobs(domains, shape[1])

    def reshape(self, bottom, top) -> None:
        """Check shapes; on a new one, shape the top and make every buffer."""
        shape = _bottoms.shape(bottom[0])
        if self._assigned:
            _bottoms.check_matrix(self._role, "w", _bottoms.shape(bottom[1]), shape[0], self._domains, "num_domains")
        if shape == self._shape:
            return
        _bottoms.check_axes(self._role, "x", shape, "N×C×…")
        samples, channels = shape[:2]
        kept = self.blobs[0].shape[1]
        if channels != kept:
            raise ValueError(f"{self._role}: x has {channels} channels (shape {shape}); its statistics are of {kept}")
        top[0].reshape(*shape)
        geometry = Geometry(samples, channels, math.prod(shape[2:]), self._domains if self._assigned else 1)
        self._backend.make(
            lambda: CpuMda(geometry, *self._choices),
            lambda device, fault: GpuMda(device, fault, geometry, *self._choices),
        )
        self._shape = shape

    def forward(self, bottom, top) -> None:
        """Write y; with the batch's statistics, fold them into the running ones."""
        self._backend.forward(self._role, bottom, top, self.blobs, self._first)

    def backward(self, top, propagate_down, bottom) -> None:
        """Write the gradients that ``propagate_down`` asks for."""
        wants_w = self._assigned and propagate_down[1]
        if propagate_down[0] or wants_w:
            self._backend.backward(self._role, top, propagate_down[0], wants_w, bottom)

    def _make_blobs(self, domains: int, channels: int) -> None:
        shapes = [(domains, channels), (domains, channels), (domains,)]
        if len(self.blobs) == 0:
            for shape in shapes:
                self.blobs.add_blob(*shape)
        found = [tuple(blob.shape) for blob in self.blobs]
        if found != shapes:
            raise ValueError(f"{self._role}: its blobs have shapes {found}; expected {shapes}")
