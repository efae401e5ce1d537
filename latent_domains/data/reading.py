"""How the files of pictures are read, where they leave it open. This module does not import OpenCV."""

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Interval, Predicate

from latent_domains.common.arguments import BACKGROUND, RANGE
from latent_domains.common.validation import Number

Byte = Annotated[int, Interval(ge=0, le=255)]


def _rises(ends: tuple[float, float]) -> bool:
    return ends[0] < ends[1]


@dataclass(frozen=True)
class Reading:
    """What decides about pixels where files do not.

    Transparent parts show the ``background`` (B, G, R). Of values of more than 8 bits, ``range`` becomes 0 to 255. None
    is that of 16 bits without a sign; other numbers are then an error.
    """

    background: tuple[Byte, Byte, Byte] = (255, 255, 255)
    range: Annotated[tuple[Number, Number], Predicate(_rises)] | None = None

    @property
    def words(self) -> dict[str, str | None]:
        """The values of the options, by their names."""
        colour = "#{2:02x}{1:02x}{0:02x}".format(*self.background)
        colour = {"#ffffff": "white", "#000000": "black"}.get(colour, colour)
        return {BACKGROUND: colour, RANGE: ":".join(f"{end:.15g}" for end in self.range) if self.range else None}


USUAL = Reading()
