"""From image files to the input of a net: how they are read, stored, cropped and scaled. Does not import OpenCV."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from annotated_types import Interval, Predicate
from numpy.typing import NDArray

from latent_domains.common.arguments import BACKGROUND, RANGE
from latent_domains.common.program import ProgramError
from latent_domains.common.validation import Number, Positive, Rate

Byte = Annotated[int, Interval(ge=0, le=255)]


def _rises(ends: tuple[float, float]) -> bool:
    return ends[0] < ends[1]


@dataclass(frozen=True)
class Reading:
    """Options that decide about pixels where files do not.

    Transparent parts show the ``background`` (B, G, R). For values of more than 8 bits, ``range`` becomes 0 to 255.
    None means the range of unsigned 16 bits; signed values and fractions are then an error.
    """

    background: tuple[Byte, Byte, Byte] = (255, 255, 255)
    range: Annotated[tuple[Number, Number], Predicate(_rises)] | None = None

    @property
    def words(self) -> dict[str, str | None]:
        """Values of the options, by their names."""
        colour = "#{2:02x}{1:02x}{0:02x}".format(*self.background)
        colour = {"#ffffff": "white", "#000000": "black"}.get(colour, colour)
        return {BACKGROUND: colour, RANGE: ":".join(f"{end:.15g}" for end in self.range) if self.range else None}


USUAL = Reading()


Values = NDArray[np.uint8 | np.float32]
"""A stored image: C×H×W, colour as B, G, R."""


@dataclass(frozen=True)
class Transform:
    """How pixels of 0 to 255 enter a net, as by Caffe's transform_param: (value - ``mean``) * ``scale``.

    There is one mean for all channels, one for each (B, G, R), or none.
    """

    mean: tuple[Number, ...] = ()
    scale: Rate = 1.0

    def __call__(self, pixels: NDArray[np.generic], out: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
        """Transform pixels (n×C×H×W, or n×C), into ``out`` if it is given; it may be the same array."""
        means = np.array(self.mean or (0,), np.float32).reshape(-1, *[1] * (pixels.ndim - 2))
        rows = np.subtract(pixels, means, out=out)
        rows *= np.float32(self.scale)
        return rows


@dataclass(frozen=True)
class Preprocessing:
    """How images are stored, and which part of them enters the net.

    ``stored_shape`` is channels, height and width of the stored image; ``crop`` is the side of the square in the middle
    that the net sees (None: all of it). Pixels enter as (value - ``mean``) * ``scale``, with one mean for all channels
    or one for each (B, G, R). ``reading`` decides how a file becomes pixels.
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

    @property
    def transform(self) -> Transform:
        """How its pixels enter the net."""
        return Transform(self.mean, self.scale)

    def inputs(self, images: Sequence[Values]) -> NDArray[np.float32]:
        """Return images of ``stored_shape`` as input (n×C×H×W), as Caffe's Data layer makes it in the TEST phase.

        If the square cannot be exactly in the middle, it lies half a pixel up and left, as in Caffe.
        """
        rows = np.empty((len(images), *self.shape), np.float32)
        for row, image in zip(rows, images, strict=True):
            top, left = (image.shape[1] - self.shape[1]) // 2, (image.shape[2] - self.shape[2]) // 2
            row[...] = image[:, top : top + self.shape[1], left : left + self.shape[2]]
        return self.transform(rows, out=rows)


STORED, SEEN = 256, 224
"""Side of the stored images from which a net sees squares of side SEEN; the margin is for random crops."""

SMALLEST, STEP = 64, 32
"""Nets halve an image five times."""


def stored_side(image_size: int) -> int:
    """Return the side of the stored images from which a net sees squares of ``image_size``.

    The margin has the usual proportion.
    """
    return round(image_size * STORED / SEEN)


def size_folder(name: str, image_size: int) -> str:
    """Return the folder of a set's LMDBs for images of another size than SEEN."""
    return f"{name}_{image_size}"


def fits(image_size: int) -> bool:
    """Say whether a net that takes images of any size takes this size."""
    return image_size >= SMALLEST and image_size % STEP == 0


def check_size(image_size: int) -> None:
    """Raise ProgramError if no net takes images of this size."""
    if not fits(image_size):
        raise ProgramError(f"image_size: got {image_size}, expected a multiple of {STEP}, at least {SMALLEST}")
