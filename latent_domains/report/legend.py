"""Entries of a legend on the page: one for all the charts that share it."""

from dataclasses import dataclass

from markupsafe import Markup, escape

from latent_domains.report.palette import VARIABLES, Dashes

_MARKS = {
    "o": '<circle cx="16" cy="6" r="3.2"/>',
    "s": '<path d="M13 3h6v6h-6z"/>',
    "^": '<path d="M16 2.4 19.6 9H12.4z"/>',
    "D": '<path d="M16 2 20 6 16 10 12 6z"/>',
    "v": '<path d="M16 9.6 19.6 3H12.4z"/>',
    "P": '<path d="M14.5 2.5h3v2h2v3h-2v2h-3v-2h-2v-3h2z"/>',
    "X": '<path d="m13 3 6 6m0-6-6 6" stroke-width="2.4"/>',
    "<": '<path d="M12.4 6 19 2.4V9.6z"/>',
    ">": '<path d="M19.6 6 13 2.4V9.6z"/>',
    "*": '<path d="m16 1.5 1.2 3.2 3.4.2-2.7 2.1.9 3.3L16 8.4l-2.8 1.9.9-3.3-2.7-2.1 3.4-.2z"/>',
}
"""Matplotlib's marks; any other is a text."""

_DASHES = {"-": "", "--": "5 2.5", ":": "1.5 2", "-.": "6 2 1.5 2"}


@dataclass(frozen=True)
class Key:
    """A name with what it looks like: a colour of the palette, a mark or a short text, and a line's dashes, if any."""

    name: str
    colour: str
    mark: str
    dashes: Dashes | None = None

    def swatch(self) -> Markup:
        """A small picture of it; the name beside it says the same."""
        line = ""
        if self.dashes is not None:
            pattern = _DASHES[self.dashes] if isinstance(self.dashes, str) else " ".join(map(str, self.dashes[1]))
            line = f'<path d="M0 6H32" stroke-dasharray="{pattern}"/>'
        text = f'<text x="16" y="10.5" text-anchor="middle" stroke="none">{escape(self.mark)}</text>'
        box = "0 0 32 12" if line else "10 0 12 12"
        return Markup(  # noqa: S704  the mark is escaped, the rest is ours
            f'<svg class="swatch" viewBox="{box}" aria-hidden="true" style="color:{VARIABLES[self.colour]}">'
            f"{line}{_MARKS.get(self.mark, text)}</svg>"
        )
