"""Dataclasses that were written as JSON, read again with every value's type checked."""

import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, get_args, get_origin

from latent_domains.common.program import ProgramError

_WORDS = {str: "a text", bool: "true or false", int: "an integer", float: "a number", dict: "an object"}


def decode(expected: Mapping[str, Any], values: Any, what: str) -> dict[str, Any]:
    """The values of a decoded JSON object, which must have exactly the keys of ``expected``, of those types.

    A type is ``str``, ``bool``, ``int``, ``float``, ``dict``, a dataclass, or ``X | None``, ``tuple[X, ...]``,
    ``tuple[X, Y]`` and ``dict[str, X]`` of such. Lists become tuples, and objects dataclasses where one is expected.
    Raises ProgramError naming the key.
    """
    if not isinstance(values, dict):
        raise ProgramError(f"{what}: got {values!r}, expected an object")
    if set(values) != set(expected):
        missing, unknown = sorted(set(expected) - set(values)), sorted(set(values) - set(expected))
        raise ProgramError(f"{what}: missing keys {missing}, unknown keys {unknown}")
    return {name: _value(kind, values[name], name) for name, kind in expected.items()}


def _value(kind: Any, value: Any, name: str) -> Any:
    """``value`` as ``kind``. Raises ProgramError if it is of another type."""
    arguments, origin = get_args(kind), get_origin(kind)
    if is_dataclass(kind):
        return kind(**decode({field.name: field.type for field in fields(kind)}, value, name))
    if origin is types.UnionType:
        return None if value is None else _value(arguments[0], value, name)
    if origin is tuple and type(value) in (list, tuple):
        kinds = (arguments[0],) * len(value) if arguments[-1] is ... else arguments
        if len(kinds) == len(value) and all(map(_is, kinds, value)):
            return tuple(value)
    elif origin is dict:
        if type(value) is dict and all(_is(arguments[1], item) for item in value.values()):
            return value
    elif _is(kind, value):
        return value
    raise ProgramError(f"{name}: got {value!r}, expected {_words(kind)}")


def _is(kind: type, value: Any) -> bool:
    """Whether a value is of a simple type; an integer is a number too."""
    return type(value) is kind or (kind is float and type(value) is int)


def _words(kind: Any) -> str:
    arguments, origin = get_args(kind), get_origin(kind)
    if origin is tuple:
        count = "" if arguments[-1] is ... else f"{len(arguments)} "
        return f"a list of {count}{_WORDS[arguments[0]].split()[-1]}s"
    if origin is dict:
        return f"an object whose values are {_WORDS[arguments[1]].split()[-1]}s"
    return _WORDS[kind]
