"""Row numbers, permuted at random within class and source: a control that shows how much rows of w matter."""

from zlib import crc32

import caffe
import numpy as np

from caffe_layers import _bottoms, _param_str

_ROLE = "PermutationLayer"
_ROWS = _param_str.Key(
    lambda value: type(value) is list and value and all(type(one) is int and one > 0 for one in value),
    "a list of integers >= 1",
)


class PermutationLayer(caffe.Layer):
    """Gives each row of a batch the number of a row of the same class and source; each number occurs once.

    Caffe's ``BatchReindex`` takes the numbers, and passes gradients back to where the rows came from. The order is
    random, but follows from the labels of the batch, so that a training that is resumed draws it again.

    Bottom: class labels (n). Top: row numbers (n).

    ``param_str`` (JSON):
        rows  how many rows each source has; the rows of a source are together, in the order of this list

    Raises ValueError, in ``setup``, for a wrong ``param_str`` or number of blobs; in ``reshape``, for a wrong shape.
    """

    def setup(self, bottom, top) -> None:
        """Read ``param_str``."""
        self._role = _bottoms.role(_ROLE, self)
        if len(bottom) != 1 or len(top) != 1:
            found = f"{len(bottom)} bottoms and {len(top)} tops"
            raise ValueError(f"{self._role}: got {found}; expected labels and 1 top")
        rows = _param_str.parse(self._role, self.param_str, {"rows": _ROWS})["rows"]
        self._sources = np.repeat(np.arange(len(rows)), rows)

    def reshape(self, bottom, top) -> None:
        """Check the number of labels."""
        _bottoms.check_labels_shape(self._role, _bottoms.shape(bottom[0]), len(self._sources))
        top[0].reshape(len(self._sources))

    def forward(self, bottom, top) -> None:
        """Write the row numbers."""
        labels = bottom[0].data.reshape(-1)
        random = np.random.default_rng(crc32(labels.tobytes())).random(len(labels))
        groups = (labels, self._sources)
        top[0].data[np.lexsort(groups)] = np.lexsort((random, *groups))

    def backward(self, top, propagate_down, bottom) -> None:
        """Labels have no gradient."""
