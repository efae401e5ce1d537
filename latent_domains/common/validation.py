"""Values that were read from a file, checked against a type; the first mistake is said in one line."""

import json
from collections.abc import Sequence
from dataclasses import is_dataclass
from functools import cache
from math import isfinite
from types import UnionType
from typing import Annotated, Any, TypeVar, get_args, get_origin

from annotated_types import Interval

from latent_domains.common.program import ProgramError

Natural = Annotated[int, Interval(ge=0, le=2**32 - 1)]  # of a seed Caffe keeps the lower 32 bits
Positive = Annotated[int, Interval(ge=1, le=2**31 - 1)]
Proportion = Annotated[float, Interval(ge=0, le=1)]
# In Caffe's single precision smaller rates are 0, and larger numbers infinite.
Rate = Annotated[float, Interval(ge=1e-30, le=1e30)]
Weight = Annotated[float, Interval(ge=0, le=1e30)]
Number = Annotated[float, Interval(ge=-1e30, le=1e30)]

_EXPECTED = {
    "string_type": "a text",
    "string_pattern_mismatch": "a text",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "float_type": "a number",
    "path_type": "a path",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "an object",
    "dataclass_type": "an object",
    "model_type": "an object",
    "too_short": "at least {min_length} of them",
    "too_long": "at most {max_length} of them",
}
"""What was expected, by pydantic's names of errors."""

_BOUNDS = {"ge": "at least {}", "gt": "more than {}", "le": "at most {}", "lt": "less than {}"}
"""Of a number, by the names that annotated_types and pydantic have for them."""

T = TypeVar("T")


def checked(kind: type[T], values: Any, where: str) -> T:
    """``values``, as JSON and YAML have them, as ``kind``. A dataclass takes no unknown key.

    Lists become tuples and objects dataclasses where those are expected; nothing else is converted, but integers are
    numbers too. Raises ProgramError with ``where``, the key, what was found and what was expected.
    """
    from pydantic import ValidationError  # it takes 0.2 s, and --help needs none of it

    try:
        extra = "forbid" if is_dataclass(kind) else None
        return _adapter(kind).validate_json(json.dumps(values), strict=True, extra=extra)
    except ValidationError as error:
        errors = error.errors(include_url=False)
        raise ProgramError(_line(kind, values, where, errors)) from error


@cache
def _adapter(kind: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def _line(kind: Any, values: Any, where: str, errors: Sequence[Any]) -> str:
    """The first error, as a line; an unknown key comes before a missing one, which may be meant by it."""
    unknown = [error for error in errors if error["type"] in ("unexpected_keyword_argument", "extra_forbidden")]
    first = (unknown or errors)[0]
    place, context = first["loc"], first.get("ctx", {})
    if unknown:
        *place, key = place
        said = f"found the key {key!r}, expected some of {', '.join(_keys(kind, place))}"
    elif first["type"] == "missing":
        place = place[:-1]
        missing = [error["loc"][-1] for error in errors if error["type"] == "missing" and error["loc"][:-1] == place]
        if isinstance(missing[-1], int):  # of a tuple
            said = f"found {first['input']!r}, expected {missing[-1] + 1} of them"
        else:
            said = f"found no {', '.join(missing)}, expected {', '.join(_keys(kind, place))}"
    elif first["type"] == "value_error":
        said = str(context["error"])
    elif first["type"] == "json_invalid":  # too deep for pydantic, or half a character of UTF-16
        deep = "recursion" in first["msg"]
        said = "nested too deeply" if deep else f"found a text that is not Unicode ({first['msg']})"
    elif first["type"] == "literal_error":
        choices = context["expected"].replace("'", "").replace(" or ", ", ")
        said = f"found {first['input']!r}, expected one of {choices}"
    else:
        expected = _EXPECTED.get(first["type"], first["msg"].removeprefix("Input should be ")).format(**context)
        if broken := {name: context[name] for name in _BOUNDS if name in context}:
            bounds = _bounds(_at(kind, place)) or broken
            expected = _in_words(bounds) if isfinite(first["input"]) else "a finite number"
        said = f"found {first['input']!r}, expected {expected}"
    return f"{_named(values, where, place)}: {said}".removeprefix(": ")


def _named(values: Any, where: str, place: Sequence[str | int]) -> str:
    """A place in words; an item of a list is called by its name as well, if it has one."""
    for key in place:
        if isinstance(key, int):
            values = values[key] if isinstance(values, list) else None
            name = values.get("name") if isinstance(values, dict) else None
            where += f"[{key}] ({name})" if name else f"[{key}]"
        else:
            values = values.get(key) if isinstance(values, dict) else None
            where += f": {key}"
    return where


def _keys(kind: Any, place: Sequence[str | int]) -> Sequence[str]:
    """The keys of the object that a value of ``kind`` has at ``place``."""
    return tuple(getattr(_plain(_at(kind, place)), "__annotations__", ()))


def _at(kind: Any, place: Sequence[str | int]) -> Any:
    """The type that a value of ``kind`` has at ``place``."""
    for key in place:
        kind = _plain(kind)
        if arguments := get_args(kind):  # of a list, a tuple or a dictionary
            kind = arguments[1 if get_origin(kind) is dict else 0]
        else:
            aliases = {field.alias: name for name, field in getattr(kind, "model_fields", {}).items() if field.alias}
            kind = getattr(kind, "__annotations__", {}).get(aliases.get(key, key))
    return kind


def _plain(kind: Any) -> Any:
    """A type without its bounds, and without None."""
    while get_origin(kind) in (Annotated, UnionType):
        kind = get_args(kind)[0]
    return kind


def _bounds(kind: Any) -> dict[str, float]:
    """All bounds of a number, where its type has them: an error knows only the one that is broken."""
    found = {}
    while get_origin(kind) in (Annotated, UnionType):
        kind, *bounds = get_args(kind)
        found |= {
            name: value for bound in bounds for name in _BOUNDS if (value := getattr(bound, name, None)) is not None
        }
    return found


def _in_words(bounds: dict[str, float]) -> str:
    said = {name: f"{value:g}" if isinstance(value, float) else str(value) for name, value in bounds.items()}
    return " and ".join(_BOUNDS[name].format(value) for name, value in said.items() if value != "inf")
