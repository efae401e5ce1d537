"""Parts of messages, and tables in Markdown."""

import re
from collections.abc import Iterable, Sequence

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def harmless(text: str) -> str:
    """Return a text with control characters escaped.

    Names in other people's files may contain some that a terminal obeys.
    """
    return _CONTROL.sub(lambda found: ascii(found[0])[1:-1], text)


def one_line(text: object) -> str:
    """Return a text, or an error's message, in one line."""
    return " ".join(str(text).split())


def by(shape: Sequence[object]) -> str:
    """Return a shape in words, such as 3×28×28."""
    return "×".join(map(str, shape)) or "a scalar"


def count_of(number: int, noun: str) -> str:
    """Return a number with its noun: 1 image, 2 images."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def some(names: Iterable[str], most: int = 8) -> str:
    """Return up to ``most`` names, and how many more exist."""
    names = list(names)
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def escape_html(text: str) -> str:
    """Return the text, escaped so that Markdown does not take it for HTML."""
    return text.replace("<", r"\<")


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table whose columns also line up in a terminal."""
    lines = [[escape_html(cell).replace("|", r"\|") for cell in row] for row in (header, *rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]

    def text(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |"

    return "\n".join([text(lines[0]), text(["-" * width for width in widths]), *map(text, lines[1:])])
