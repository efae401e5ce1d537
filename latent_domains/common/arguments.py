"""Values of command lines: what argparse needs to read them and to say what is wrong with them."""

from argparse import ArgumentTypeError


def positive(text: str) -> int:
    """A whole number of at least 1."""
    return _whole(text, 1)


def natural(text: str) -> int:
    """A whole number of at least 0."""
    return _whole(text, 0)


def seconds(text: str) -> float:
    """A time above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise ArgumentTypeError(f"got {text!r}, expected a number of seconds above 0")
    return value


def _whole(text: str, least: int) -> int:
    if not text.isdecimal() or int(text) < least:
        raise ArgumentTypeError(f"got {text!r}, expected a whole number of at least {least}")
    return int(text)
