"""From pixels to the input of a net, the same in training, in tests and for new images."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from latent_domains.common.validation import Number, Positive, Rate
from latent_domains.data.reading import USUAL, Reading

Values = NDArray[np.uint8 | np.float32]
"""A stored image: C×H×W, colour as B, G, R."""


@dataclass(frozen=True)
class Preprocessing:
    """``stored_shape`` is channels, height and width that an image is resized to; ``crop`` the side of the square in
    the middle that the net sees of it (None: all of it). Pixels enter as (value - ``mean``) * ``scale``, with one mean
    for all channels or one for each (B, G, R). ``reading`` says how a file becomes pixels.
    """

    stored_shape: tuple[Positive, Positive, Positive]
    crop: Positive | None
    mean: tuple[Number, ...]
    scale: Rate
    reading: Reading = USUAL

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height, width of the net's input."""
        return self.stored_shape if self.crop is None else (self.stored_shape[0], self.crop, self.crop)

    def inputs(self, images: Sequence[Values]) -> NDArray[np.float32]:
        """Images of ``stored_shape`` as the net's input (n×C×H×W), as Caffe's Data layer makes it in the TEST phase.

        Where the square cannot be in the middle, it lies half a pixel up and left, as in Caffe.
        """
        rows = np.empty((len(images), *self.shape), np.float32)
        for row, image in zip(rows, images, strict=True):
            top, left = (image.shape[1] - self.shape[1]) // 2, (image.shape[2] - self.shape[2]) // 2
            row[...] = image[:, top : top + self.shape[1], left : left + self.shape[2]]
        rows -= np.array(self.mean or (0,), np.float32).reshape(-1, 1, 1)
        rows *= np.float32(self.scale)
        return rows
