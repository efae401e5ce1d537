"""Strict reading of ``param_str``: one JSON object of known keys, each with its own type and range."""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

REQUIRED = object()


@dataclass(frozen=True)
class Key:
    """One key of a ``param_str``.

    ``accepts`` says whether a decoded JSON value is valid, ``expected`` describes valid values, and ``default`` is the
    value of an absent key (REQUIRED: the key must be present).
    """

    accepts: Callable[[Any], bool]
    expected: str
    default: Any = REQUIRED


def integer(minimum: int, default: Any = REQUIRED, *, maximum: int | None = None) -> Key:
    """Return the key of an integer from ``minimum`` to ``maximum`` (None: no limit).

    true, false and 2.0 are not integers.
    """
    expected = f"an integer >= {minimum}" if maximum is None else f"an integer from {minimum} to {maximum}"
    most = math.inf if maximum is None else maximum
    return Key(lambda value: type(value) is int and minimum <= value <= most, expected, default)


def num_domains() -> Key:
    """Return the key of D. Caffe ends the process if a blob, D times channels or rows, has 2^31 values."""
    return integer(1, maximum=10_000)


def positive(default: float) -> Key:
    """Return the key of a finite number above zero."""
    return Key(lambda value: _is_number(value) and value > 0, "a finite number > 0", default)


def fraction(default: float) -> Key:
    """Return the key of a number from 0 to 1."""
    return Key(lambda value: _is_number(value) and 0 <= value <= 1, "a number from 0 to 1", default)


def boolean(default: bool) -> Key:
    """Return the key of true or false."""
    return Key(lambda value: type(value) is bool, "true or false", default)


def optional_boolean() -> Key:
    """Return the key of true, false or null; null if absent."""
    return Key(lambda value: value is None or type(value) is bool, "true, false or null", None)


def parse(role: str, text: str, keys: Mapping[str, Key]) -> dict[str, Any]:
    """Decode ``text`` into one value for every key of ``keys``.

    ``role`` begins every message. An empty text means ``{}``. Raises ValueError for text that is not one JSON object,
    for NaN and infinities, for a key that is repeated, unknown or missing, and for a value that its key does not
    accept.
    """

    def fail(message: str) -> NoReturn:
        raise ValueError(f"{role}: param_str {message}")

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            names = [name for name, _ in pairs]
            fail(f"repeats the key {next(name for name in names if names.count(name) > 1)!r}")
        return found

    def refuse(constant: str) -> NoReturn:
        fail(f"holds {constant}; expected finite numbers")

    def whole(digits: str) -> int | float:
        # Python refuses an integer of thousands of digits. Like 1e999 it counts as infinite.
        return int(digits) if len(digits) < 1000 else float(digits)

    try:
        text.encode()
        decode = partial(json.loads, object_pairs_hook=unique, parse_constant=refuse, parse_int=whole)
        given = decode(text) if text.strip() else {}
    except (json.JSONDecodeError, UnicodeEncodeError, RecursionError) as error:
        # Bytes that are no UTF-8 come from Caffe as surrogates.
        reasons = {UnicodeEncodeError: "it is not UTF-8", RecursionError: "it is nested too deeply"}
        reason = reasons.get(type(error), error)
        fail(f"is not valid JSON ({reason}); got {_short(repr(text))}, expected an object such as {_example(keys)}")
    if not isinstance(given, dict):
        fail(f"is {_short(repr(text))}; expected a JSON object such as {_example(keys)}")
    unknown = sorted(set(given) - set(keys))
    if unknown:
        known = ", ".join(keys) or "none"
        fail(f"has the unknown key {_short(repr(unknown[0]))}; known keys: {known}")

    values = {}
    for name, key in keys.items():
        if name in given:
            if not key.accepts(given[name]):
                fail(f"{name} is {_short(json.dumps(given[name]))}; expected {key.expected}")
            values[name] = given[name]
        elif key.default is REQUIRED:
            fail(f"lacks {name}; expected {key.expected}")
        else:
            values[name] = key.default
    return values


def _is_number(value: Any) -> bool:
    # An integer literal may be too large for a float: that counts as infinite.
    try:
        return type(value) in (int, float) and math.isfinite(value)
    except OverflowError:
        return False


def _short(text: str) -> str:
    """Return the beginning of a text for a message of one line."""
    return text if len(text) <= 200 else f"{text[:200]} … ({len(text)} characters)"


def _example(keys: Mapping[str, Key]) -> str:
    return json.dumps({name: 2 for name, key in keys.items() if key.default is REQUIRED})
