"""How much of a row of a speed table is measured."""

from dataclasses import dataclass

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Extent:
    """``seconds`` for each comparison. ``smallest``: one step on little data, to see that it runs."""

    seconds: float
    smallest: bool = False

    def shape(self, shape: Shape) -> Shape:
        """The shape of a blob."""
        return tuple(min(size, 4) for size in shape) if self.smallest else shape

    def images(self, count: int) -> int:
        """The number of images, ``count`` at most."""
        return min(count, 2) if self.smallest else count


WHOLE = Extent(0)
"""All of the data."""
