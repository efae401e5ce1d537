"""Check values from a file against a type; describe the first mistake in one line."""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from functools import cache
from typing import Annotated, Any, TypeVar, get_type_hints

from annotated_types import Interval

from latent_domains.common.program import ProgramError

Natural = Annotated[int, Interval(ge=0, le=2**32 - 1)]  # Caffe keeps the lower 32 bits of a seed
Positive = Annotated[int, Interval(ge=1, le=2**31 - 1)]
Proportion = Annotated[float, Interval(ge=0, le=1)]
# In Caffe's single precision smaller rates become 0, and larger numbers infinite.
Rate = Annotated[float, Interval(ge=1e-30, le=1e30)]
Weight = Annotated[float, Interval(ge=0, le=1e30)]
Number = Annotated[float, Interval(ge=-1e30, le=1e30)]

T = TypeVar("T")


@dataclass(frozen=True)
class Help:
    """Marks a field of a dataclass as a setting that users choose, with its help on the command line.

    ``title`` turns a value that differs from the default into words for titles.
    """

    text: str
    metavar: str | None = None
    title: Callable[[Any], str] = lambda value: ""


def checked(kind: type[T], values: Any, where: str) -> T:
    """Turn ``values`` from JSON or YAML into ``kind``. A dataclass takes no unknown key.

    Lists become tuples and objects become dataclasses where ``kind`` has these. An integer may replace a float. Nothing
    else is converted. The error names ``where``, the key, what was found and what was expected.
    """
    from pydantic import ValidationError  # it takes 0.2 s, and --help needs none of it

    try:
        extra = "forbid" if is_dataclass(kind) else None
        return _adapter(kind).validate_json(json.dumps(values), strict=True, extra=extra)
    except ValidationError as error:
        mistakes = error.errors(include_url=False)
        raise ProgramError(_in_a_line(kind, values, where, mistakes)) from error


def check_keys(found: Iterable[str], known: Collection[str], where: str) -> None:
    """Raise ProgramError for the first key that is unknown."""
    for key in found:
        if key not in known:
            expected = f"some of {', '.join(known)}" if known else "none"
            raise ProgramError(f"{where}: found the key {key!r}, expected {expected}")


@cache
def hints(kind: type) -> dict[str, Any]:
    """Return the types of a dataclass's fields, with their bounds."""
    return get_type_hints(kind, include_extras=True)


def checked_fields(kind: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of some fields of the dataclass ``kind``, each converted by :func:`checked`."""
    return {name: checked(hints(kind)[name], value, name) for name, value in values.items()}


@cache
def _adapter(kind: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def _in_a_line(kind: Any, values: Any, where: str, mistakes: Sequence[Any]) -> str:
    """Return the first mistake, in pydantic's words. Unknown keys come first: one may be a misspelt missing key."""
    unknown = [mistake for mistake in mistakes if mistake["type"] in ("unexpected_keyword_argument", "extra_forbidden")]
    mistake = (unknown or mistakes)[0]
    place, message = mistake["loc"], mistake["msg"]
    if unknown:
        *place, key = place
        known = "" if place else f", expected some of {', '.join(kind.__annotations__)}"
        message = f"found the key {key!r}{known or ', which is unknown there'}"
    elif mistake["type"] == "missing":
        place = place[:-1]
        message = "found no " + ", ".join(str(m["loc"][-1]) for m in mistakes if m["type"] == "missing")
    elif mistake["type"] == "value_error":
        message = str(mistake["ctx"]["error"])
    elif (expected := message.removeprefix("Input should be ")) != message:
        message = f"found {mistake['input']!r}, expected {expected}"
    return f"{_named(values, where, place)}: {message}".removeprefix(": ")


def _named(values: Any, where: str, place: Sequence[str | int]) -> str:
    """Return the path to a value in words; an item of a list also by its name, if it has one."""
    for key in place:
        if isinstance(key, int):
            values = values[key] if isinstance(values, list) else None
            name = values.get("name") if isinstance(values, dict) else None
            where += f"[{key}] ({name})" if name else f"[{key}]"
        else:
            values = values.get(key) if isinstance(values, dict) else None
            where += f": {key}"
    return where
