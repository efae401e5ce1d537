"""Tables in Markdown."""

from collections.abc import Sequence


def escape_html(text: str) -> str:
    """The text, escaped so that Markdown does not take it for HTML."""
    return text.replace("<", r"\<")


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table whose columns also line up in a terminal."""
    lines = [[escape_html(cell).replace("|", r"\|") for cell in row] for row in (header, *rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]

    def text(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |"

    return "\n".join([text(lines[0]), text(["-" * width for width in widths]), *map(text, lines[1:])])
