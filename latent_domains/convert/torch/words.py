"""Contents of files in messages: short and printable, whatever their size, depth and characters are."""

from reprlib import Repr
from typing import Any

_LONGEST = 200
"""Characters of one thing from a file."""

_BITS = 64
"""Of the numbers that are shown by their digits: Python refuses to write thousands of these."""


def plain(text: str) -> str:
    """Return a text, cut if it is long and with control characters escaped: they would act on the terminal."""
    cut = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text[:_LONGEST])
    if len(cut) > _LONGEST or len(text) > _LONGEST:
        return f"{cut[:_LONGEST]}… ({len(text)} characters)"
    return cut or "''"


def shown(value: Any) -> str:
    """Return the representation of a value, cut where it is large."""
    return plain(_REPR.repr(value))


class _Repr(Repr):
    """reprlib's, without the sizes that it lets through: those of whole numbers and of what is not Python's own."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 3

    def repr_int(self, x: int, level: int) -> str:
        return repr(x) if x.bit_length() <= _BITS else f"<a number of {x.bit_length()} bits>"

    def repr_instance(self, x: Any, level: int) -> str:
        if isinstance(x, (bool, float, bytes, bytearray, type(None))):
            return super().repr_instance(x, level)
        return f"<{type(x).__name__}>"


_REPR = _Repr()
