"""Parts of messages."""

import re
from collections.abc import Iterable, Sequence

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def harmless(text: str) -> str:
    """A text with control characters escaped: names in other people's files may hold some that a terminal obeys."""
    return _CONTROL.sub(lambda found: ascii(found[0])[1:-1], text)


def one_line(text: object) -> str:
    """A text, or an error's message, in one line."""
    return " ".join(str(text).split())


def by(shape: Sequence[object]) -> str:
    """A shape in words, such as 3×28×28."""
    return "×".join(map(str, shape)) or "a scalar"


def count_of(number: int, noun: str) -> str:
    """A number with its noun: 1 image, 2 images."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def some(names: Iterable[str], most: int = 8) -> str:
    """Up to ``most`` names, and how many more there are."""
    names = list(names)
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
