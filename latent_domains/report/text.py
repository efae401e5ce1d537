"""Make names printable on pages and charts: those of folders, domains and classes may hold any character."""

import re

_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
"""What XML cannot hold, and what stands for the bytes of a file name that are no UTF-8."""


def printable(text: str) -> str:
    """``text`` with a replacement character for each that cannot be shown."""
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def identifier(text: str) -> str:
    """``text`` as an element's id and a file's name."""
    return re.sub(r"[^\w.+-]+", "-", text)


def latent_name(domain: int) -> str:
    """What a latent domain, counted from 0, is called: s₁, s₂, …"""
    return "s" + str(domain + 1).translate(str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉"))


def shortened(text: str, length: int) -> str:
    """``text`` for a chart: printable, and cut to its beginning and an ellipsis if it is longer than ``length``."""
    text = printable(text)
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"
