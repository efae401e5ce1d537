"""Values that were read from a file, checked against a type; the first mistake is said in one line."""

import json
from collections.abc import Sequence
from dataclasses import is_dataclass
from functools import cache
from math import isfinite
from types import UnionType
from typing import Annotated, Any, TypeVar, get_args, get_origin

from annotated_types import Ge

from latent_domains.common.program import ProgramError

Natural = Annotated[int, Ge(0)]
Positive = Annotated[int, Ge(1)]

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
    "greater_than_equal": "at least {ge}",
    "greater_than": "more than {gt}",
    "less_than_equal": "at most {le}",
    "too_short": "at least {min_length} of them",
    "too_long": "at most {max_length} of them",
}
"""What was expected, by pydantic's names of errors."""

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
    elif first["type"] == "json_invalid":  # half a character of UTF-16
        said = f"found a text that is not Unicode ({first['msg']})"
    elif first["type"] == "literal_error":
        choices = context["expected"].replace("'", "").replace(" or ", ", ")
        said = f"found {first['input']!r}, expected one of {choices}"
    else:
        expected = _EXPECTED.get(first["type"], first["msg"].removeprefix("Input should be ")).format(**context)
        if isinstance(first["input"], float) and not isfinite(first["input"]):
            expected = "a finite number"
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
    while get_origin(kind) in (Annotated, UnionType):
        kind = get_args(kind)[0]
    if not place:
        return tuple(getattr(kind, "__annotations__", ()))
    if arguments := get_args(kind):  # of a list, a tuple or a dictionary
        inner = arguments[1 if get_origin(kind) is dict else 0]
    else:
        inner = getattr(kind, "__annotations__", {}).get(place[0])
    return _keys(inner, place[1:])
